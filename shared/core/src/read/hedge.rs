//! When a call is doubled with the next model: late calls cost time, and a second call costs money.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latency::{Latency, MIN_SAMPLES};

/// Of this many calls one may be doubled: 5 %.
pub const CALLS_PER_HEDGE: u32 = 20;
/// Calls that count at most, for as long as none is doubled: a day without a late call earns nothing.
pub const MAX_CREDIT: u32 = 400;
/// No call is late before this.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// A call is late after this many times (in tenths) as long as nearly all calls to its model take.
const LATE_TENTHS: u32 = 15;
/// When a call is late to a model that has not answered yet.
pub const UNKNOWN_DELAY: Duration = Duration::from_secs(5);

/// When a call is doubled, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// It is late: one of the few calls that may be doubled.
    pub late: Duration,
    /// Later, no other model would have the time to read the page: it is always doubled.
    pub last_chance: Duration,
}

/// When to double a call that starts with `left` until the deadline. `own` and `next` are the latencies of
/// its model and of the next one.
pub fn plan(left: Duration, own: Option<Latency>, next: Option<Latency>) -> Hedge {
    // One or two calls say little about how long nearly all calls take.
    let few = |latency: &Latency| if latency.samples < MIN_SAMPLES { UNKNOWN_DELAY } else { MIN_DELAY };
    let late = own.map_or(UNKNOWN_DELAY, |own| (own.high() * LATE_TENTHS / 10).max(few(&own)));
    let needed = |latency: Option<Latency>| latency.map_or(UNKNOWN_DELAY, |it| it.high().max(MIN_DELAY));
    let other = next.or(own);
    // If the call takes as long as calls may and fails, could the next model still be called?
    if left < needed(own) + needed(other) {
        let soon = own.map_or(left / 4, |own| own.median());
        return Hedge { late, last_chance: soon.min(left / 3) };
    }
    let last_chance = other.map_or(left / 2, |_| left.saturating_sub(needed(other) * 5 / 4));
    Hedge { late, last_chance: last_chance.max(own.map_or(Duration::ZERO, |own| own.high())) }
}

/// Calls that were made and not yet used up by doubled ones, of the processes that share them. It is below zero
/// where a call was doubled that the calls so far have not earned completely: the share is rounded up once, for
/// all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    pub calls: i64,
}

impl Credit {
    pub fn with_calls(self, calls: u32) -> Self {
        Self { calls: (self.calls + i64::from(calls)).min(i64::from(MAX_CREDIT)) }
    }

    /// What is left when one more call is doubled; `None` when none may be.
    pub fn take(self) -> Option<Self> {
        (self.calls > 0).then(|| Self { calls: self.calls - i64::from(CALLS_PER_HEDGE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latency(median_ms: u64, high_ms: u64) -> Option<Latency> {
        Some(Latency { median_ms, high_ms, samples: 20 })
    }

    #[test]
    fn a_late_call_is_doubled_early_only_shortly_before_the_deadline() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let hedge = |late, last_chance| Hedge { late, last_chance };
        let usual = second * 27 / 20;
        assert_eq!(plan(minute, latency(500, 900), latency(400, 700)), hedge(usual, second * 235 / 4));
        assert_eq!(plan(minute, latency(5, 9), None), hedge(second, second * 235 / 4));
        assert_eq!(plan(minute, None, latency(400, 700)), hedge(UNKNOWN_DELAY, second * 235 / 4));
        assert_eq!(plan(second * 19 / 10, latency(500, 900), latency(400, 700)), hedge(usual, second / 2));
        assert_eq!(plan(second * 3, latency(500, 900), latency(400, 700)), hedge(usual, second * 7 / 4));
        assert_eq!(plan(second * 3, None, None), hedge(UNKNOWN_DELAY, second * 3 / 4));
        let one_call = Some(Latency { median_ms: 5, high_ms: 5, samples: 1 });
        assert_eq!(plan(minute, one_call, None), hedge(UNKNOWN_DELAY, second * 235 / 4));
        // Calls of which nothing is known may take long; half of the time is the next model's.
        assert_eq!(plan(minute, None, None), hedge(UNKNOWN_DELAY, minute / 2));
        // Slow models: a call that is not late yet is not doubled before nearly all have ended.
        assert_eq!(
            plan(minute, latency(20_000, 29_000), latency(20_000, 29_000)),
            hedge(second * 87 / 2, second * 29)
        );
    }

    proptest! {
        /// However many processes make calls and double what they may, at any time at most one call in twenty of
        /// all of them was doubled, rounded up.
        #[test]
        fn at_most_one_call_in_twenty_is_doubled(steps in prop::collection::vec((0u32..60, 0u32..9), 1..200)) {
            let (mut credit, mut calls, mut hedges) = (Credit::default(), 0u64, 0u64);
            for (more, wanted) in steps {
                credit = credit.with_calls(more);
                calls += u64::from(more);
                for _ in 0..wanted {
                    if let Some(left) = credit.take() {
                        (credit, hedges) = (left, hedges + 1);
                    }
                }
                prop_assert!(hedges <= calls.div_ceil(u64::from(CALLS_PER_HEDGE)), "{hedges} of {calls}");
                prop_assert!(credit.calls <= i64::from(MAX_CREDIT));
            }
        }
    }

    #[test]
    fn the_first_call_may_be_doubled_and_then_one_of_twenty() {
        let first = Credit::default().with_calls(1).take();
        assert_eq!(first, Some(Credit { calls: -19 }));
        assert_eq!((Credit::default().take(), Credit { calls: -19 }.with_calls(19).take()), (None, None));
        assert!(Credit { calls: -19 }.with_calls(20).take().is_some());
    }
}
