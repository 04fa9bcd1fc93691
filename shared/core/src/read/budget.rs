//! How long one model call may take.

use std::time::Duration;

use jiff::Timestamp;

use crate::time::until;

/// Shorter calls are not made: they would be paid for and cut off.
pub const MIN_CALL_TIME: Duration = Duration::from_millis(100);

/// The smaller of the request timeout and the time left to the deadline; `None` when too little
/// is left for a call.
pub fn call_time(now: Timestamp, deadline: Timestamp, request_timeout: Duration) -> Option<Duration> {
    let left = until(now, deadline);
    (left >= MIN_CALL_TIME).then(|| left.min(request_timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::after;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_call_never_outlives_the_deadline_or_its_own_limit(left in 0u64..1_000_000, limit in 1u64..1_000_000) {
            let now = Timestamp::UNIX_EPOCH;
            let deadline = after(now, Duration::from_millis(left));
            match call_time(now, deadline, Duration::from_millis(limit)) {
                Some(time) => prop_assert!(time <= Duration::from_millis(limit) && after(now, time) <= deadline),
                None => prop_assert!(Duration::from_millis(left) < MIN_CALL_TIME),
            }
        }
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_no_call() {
        let now = after(Timestamp::UNIX_EPOCH, Duration::from_secs(60));
        assert_eq!(call_time(now, Timestamp::UNIX_EPOCH, Duration::from_secs(120)), None);
    }
}
