//! How long one model call may take: time is planned, so that a model that hangs leaves time for the others.

use std::time::Duration;

use jiff::Timestamp;

use super::latency::Latency;
use crate::time::until;

/// Shorter calls are not made: they would be paid for and cut off.
pub const MIN_CALL_TIME: Duration = Duration::from_millis(100);
/// No call is cut off earlier than this because it is slower than others.
const MIN_PATIENT_CALL: Duration = Duration::from_secs(10);
/// No call to a model that has not answered yet is cut off earlier than this, compared with other models.
const MIN_UNKNOWN_CALL: Duration = Duration::from_secs(20);
/// A call may take this many times as long as nearly all calls to its model.
const OWN_FACTOR: u32 = 6;
/// A call to a model that has not answered yet may take this many times as long as calls to another model.
const OTHER_FACTOR: u32 = 10;

/// What decides how long a call may take.
#[derive(Clone, Copy, Debug)]
pub struct CallBudget {
    pub now: Timestamp,
    /// The job's deadline, or the end of the worker.
    pub end: Timestamp,
    pub request_timeout: Duration,
    /// Models that could still be called for this page, with this one.
    pub steps_left: u32,
    /// The observed latency of this model.
    pub own: Option<Latency>,
    /// The highest observed latency of the page's other models.
    pub other: Option<Latency>,
    /// Calls of this page to this model that have timed out, and openings of its breaker in a row: each
    /// doubles the time, so that a model that has become slow is given enough.
    pub timeouts: u32,
    /// The page is given to another model as well when half of the time is over (see `hedge`).
    pub is_doubled: bool,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTime {
    pub time: Duration,
    /// A call that takes longer is a failure of the model; otherwise the page had too little time for it.
    pub is_models_limit: bool,
}

/// The time of one call; `None` when too little is left for one.
///
/// It is the smallest of `REQUEST_TIMEOUT`, the model's share of the time left, and what a call should take by the
/// latencies that were observed. The share is half of the time while others could still be called, so that the
/// preferred model has the most; but all of it where half is less than calls to this model need and the others would
/// not need less, or where another model is called without ending this call.
pub fn call_time(budget: &CallBudget) -> Option<CallTime> {
    let left = until(budget.now, budget.end);
    if left < MIN_CALL_TIME {
        return None;
    }
    let needs_more = |latency: Latency| latency.high() * 5 / 4 > left / 2;
    let are_others_slow = budget.is_doubled || budget.other.is_none_or(needs_more);
    let share = match budget.own {
        _ if budget.steps_left <= 1 => left,
        Some(own) if needs_more(own) && own.median() <= left && are_others_slow => left,
        None if budget.is_doubled => left,
        Some(_) | None => left / 2,
    };
    let expected = match (budget.own, budget.other) {
        (Some(own), _) => Some((own.high() * OWN_FACTOR).max(MIN_PATIENT_CALL)),
        (None, Some(other)) => Some((other.high() * OTHER_FACTOR).max(MIN_UNKNOWN_CALL)),
        (None, None) => None,
    };
    let patient = expected.map(|time| time.saturating_mul(2u32.saturating_pow(budget.timeouts.min(16))));
    let models_limit = budget.request_timeout.min(patient.unwrap_or(Duration::MAX));
    let time = share.min(models_limit).max(MIN_CALL_TIME);
    // A share that nearly every call to this model would keep to says as much about the model. Where nothing is
    // known of it, its calls may just take longer.
    let is_ample = budget.own.is_some_and(|own| share >= (own.high() * 2).max(MIN_PATIENT_CALL));
    Some(CallTime { time, is_models_limit: models_limit <= share || is_ample })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::after;
    use proptest::prelude::*;

    fn budget(left: u64, steps_left: u32) -> CallBudget {
        let now = Timestamp::UNIX_EPOCH;
        CallBudget {
            now,
            end: after(now, Duration::from_secs(left)),
            request_timeout: Duration::from_secs(120),
            steps_left,
            own: None,
            other: None,
            timeouts: 0,
            is_doubled: false,
        }
    }

    fn latency(high_ms: u64) -> Option<Latency> {
        Some(Latency { median_ms: high_ms / 2, high_ms, samples: 10 })
    }

    #[test]
    fn a_model_gets_its_share_of_the_time_and_no_more_than_calls_should_take() {
        let seconds = |budget: CallBudget| call_time(&budget).map(|call| call.time.as_secs());
        assert_eq!(seconds(budget(300, 2)), Some(120));
        assert_eq!(seconds(budget(180, 4)), Some(90));
        assert_eq!(seconds(budget(180, 1)), Some(120));
        assert_eq!(seconds(budget(60, 2)), Some(30));
        // Observed latencies: its own, or those of another model.
        assert_eq!(seconds(CallBudget { own: latency(500), ..budget(300, 2) }), Some(10));
        assert_eq!(seconds(CallBudget { own: latency(8000), ..budget(300, 2) }), Some(48));
        assert_eq!(seconds(CallBudget { other: latency(500), ..budget(300, 2) }), Some(20));
        assert_eq!(seconds(CallBudget { other: latency(6000), ..budget(300, 2) }), Some(60));
        // A model that got slow is given more time with each timeout.
        assert_eq!(seconds(CallBudget { own: latency(500), timeouts: 2, ..budget(300, 1) }), Some(40));
        // Half of the time is less than it needs: no other model would have more.
        assert_eq!(seconds(CallBudget { own: latency(35_000), ..budget(60, 2) }), Some(60));
        assert_eq!(seconds(CallBudget { own: latency(12_000), ..budget(60, 2) }), Some(30));
        assert_eq!(
            seconds(CallBudget { own: latency(35_000), other: latency(900), ..budget(60, 2) }),
            Some(30)
        );
        assert_eq!(
            seconds(CallBudget { own: latency(35_000), ..budget(15, 2) }),
            Some(7),
            "too little in any case"
        );
        // The next model is called when half of the time is over, and this call continues.
        assert_eq!(seconds(CallBudget { is_doubled: true, ..budget(60, 2) }), Some(60));
        assert_eq!(seconds(CallBudget { is_doubled: true, own: latency(500), ..budget(15, 2) }), Some(7));
    }

    #[test]
    fn a_timeout_is_the_models_failure_unless_the_page_had_little_time() {
        let is_models = |budget: CallBudget| call_time(&budget).unwrap().is_models_limit;
        assert!(is_models(budget(300, 2)));
        assert!(!is_models(budget(30, 2)), "a model of which nothing is known may take longer than 15 s");
        assert!(is_models(CallBudget { other: latency(500), is_doubled: true, ..budget(30, 2) }));
        assert!(!is_models(CallBudget { own: latency(18_000), ..budget(30, 2) }));
        assert!(is_models(CallBudget { own: latency(7000), ..budget(30, 2) }));
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_no_call() {
        assert_eq!(call_time(&budget(0, 1)), None);
    }

    proptest! {
        #[test]
        fn a_call_never_outlives_the_deadline_or_its_own_limit(
            left in 0u64..1_000_000, limit in 101u64..1_000_000, steps_left in 0u32..9, high in 0u64..200_000, timeouts in 0u32..40,
        ) {
            let now = Timestamp::UNIX_EPOCH;
            let end = after(now, Duration::from_millis(left));
            let own = (high > 100_000).then_some(Latency { median_ms: high, high_ms: high, samples: 9 });
            let budget = CallBudget {
                now, end, request_timeout: Duration::from_millis(limit), steps_left, own, other: None, timeouts,
                is_doubled: timeouts % 2 == 0,
            };
            match call_time(&budget) {
                Some(CallTime { time, .. }) => {
                    prop_assert!(time <= Duration::from_millis(limit) && after(now, time) <= end);
                }
                None => prop_assert!(Duration::from_millis(left) < MIN_CALL_TIME),
            }
        }
    }
}
