//! When a call is doubled with the next model: late calls cost time, and a second call costs money.

use std::time::Duration;

use super::latency::{Latency, MIN_SAMPLES};

/// Of this many calls one may be doubled: 5 %.
const CALLS_PER_HEDGE: u64 = 20;
/// No call is late before this.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// A call is late after this many times (in tenths) as long as nearly all calls to its model take.
const LATE_TENTHS: u32 = 15;
/// When a call is late to a model that has not answered yet.
pub const UNKNOWN_DELAY: Duration = Duration::from_secs(5);

/// When a call is doubled, and whether that counts against the share of calls that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedge {
    pub after: Duration,
    /// One of the last pages before the deadline: there is no time for another round.
    pub is_last_chance: bool,
}

/// When to double a call that starts with `left` until the deadline. `own` and `next` are the latencies of
/// its model and of the next one.
pub fn plan(left: Duration, own: Option<Latency>, next: Option<Latency>) -> Hedge {
    // One or two calls say little about how long nearly all calls take.
    let few = |latency: &Latency| if latency.samples < MIN_SAMPLES { UNKNOWN_DELAY } else { MIN_DELAY };
    let late = own.map_or(UNKNOWN_DELAY, |own| (own.high() * LATE_TENTHS / 10).max(few(&own)));
    let needed = |latency: Option<Latency>| latency.map_or(UNKNOWN_DELAY, |it| it.high().max(MIN_DELAY));
    // If the call takes as long as calls may and fails, could the next model still be called?
    if left < needed(own) + needed(next.or(own)) {
        let soon = own.map_or(left / 4, |own| own.median());
        return Hedge { after: soon.min(left / 3), is_last_chance: true };
    }
    Hedge { after: late, is_last_chance: false }
}

/// Whether one more call may be doubled, after `calls` calls of which `hedges` were.
pub fn is_within_budget(calls: u64, hedges: u64) -> bool {
    hedges * CALLS_PER_HEDGE < calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(median_ms: u64, high_ms: u64) -> Option<Latency> {
        Some(Latency { median_ms, high_ms, samples: 20 })
    }

    #[test]
    fn a_late_call_is_doubled_early_only_shortly_before_the_deadline() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let hedge = |after, is_last_chance| Hedge { after, is_last_chance };
        assert_eq!(plan(minute, latency(500, 900), latency(400, 700)), hedge(second * 27 / 20, false));
        assert_eq!(plan(minute, latency(5, 9), None), hedge(second, false));
        assert_eq!(plan(minute, None, latency(400, 700)), hedge(UNKNOWN_DELAY, false));
        assert_eq!(plan(second * 19 / 10, latency(500, 900), latency(400, 700)), hedge(second / 2, true));
        assert_eq!(plan(second * 3, latency(500, 900), latency(400, 700)), hedge(second * 27 / 20, false));
        assert_eq!(plan(second * 3, None, None), hedge(second * 3 / 4, true));
        let one_call = Some(Latency { median_ms: 5, high_ms: 5, samples: 1 });
        assert_eq!(plan(minute, one_call, None), hedge(UNKNOWN_DELAY, false));
    }

    #[test]
    fn at_most_one_call_in_twenty_is_doubled() {
        assert!(!is_within_budget(0, 0));
        assert!(is_within_budget(1, 0));
        assert!(!is_within_budget(20, 1));
        assert!(is_within_budget(21, 1));
        assert!(!is_within_budget(400, 20));
    }
}
