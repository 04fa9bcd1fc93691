//! How long to rest: between tries of our own calls, and before a broken model is asked again.

use std::time::Duration;

/// The pause before try `attempt` (1 is the first retry); `None` when tries are used up.
pub fn retry_pause(intervals: &[Duration], attempt: usize) -> Option<Duration> {
    attempt.checked_sub(1).and_then(|index| intervals.get(index)).copied()
}

/// How long a breaker stays open the `trips`-th time in a row: base, doubled each time, capped.
pub fn breaker_rest(trips: u32, base: Duration, cap: Duration) -> Duration {
    let doubled = base.checked_mul(2u32.saturating_pow(trips.saturating_sub(1)));
    doubled.unwrap_or(cap).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rests_double_up_to_the_cap() {
        let rests: Vec<u64> = (1..=6)
            .map(|trips| breaker_rest(trips, Duration::from_secs(30), Duration::from_secs(300)).as_secs())
            .collect();
        assert_eq!(rests, [30, 60, 120, 240, 300, 300]);
    }

    #[test]
    fn retries_end_with_their_list() {
        let list = [1, 4, 16].map(Duration::from_secs);
        assert_eq!(retry_pause(&list, 1), Some(Duration::from_secs(1)));
        assert_eq!(retry_pause(&list, 3), Some(Duration::from_secs(16)));
        assert_eq!(retry_pause(&list, 4), None);
        assert_eq!(retry_pause(&list, 0), None);
    }

    proptest! {
        #[test]
        fn a_rest_is_never_over_the_cap_nor_shrinks(trips in 0u32..10_000, base in 1u64..100_000, cap in 1u64..100_000) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let rest = breaker_rest(trips, base, cap);
            prop_assert!(rest <= cap);
            prop_assert!(rest <= breaker_rest(trips + 1, base, cap));
        }
    }
}
