//! How long to wait before a retry, and how long a breaker's cooldown lasts.

use std::time::Duration;

/// The pause before a retry (1 is the first); `None` after the last one.
pub fn retry_pause(intervals: &[Duration], retry: usize) -> Option<Duration> {
    retry.checked_sub(1).and_then(|index| intervals.get(index)).copied()
}

/// A pause that is up to a quarter shorter, so that callers that failed together do not return together, and none later
/// than the settings say. `random_below` returns a number below its argument.
pub fn spread(pause: Duration, random_below: impl FnOnce(u64) -> u64) -> Duration {
    pause - Duration::from_millis(random_below(pause.as_millis() as u64 / 4 + 1))
}

/// How long a breaker stays open after it has opened `trips` times in a row: `base`, doubled each
/// time, at most `cap`.
pub fn cooldown(trips: u32, base: Duration, cap: Duration) -> Duration {
    let doubled = base.checked_mul(2u32.saturating_pow(trips.saturating_sub(1)));
    doubled.unwrap_or(cap).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cooldowns_double_up_to_the_cap() {
        let cooldowns: Vec<u64> = (1..=6)
            .map(|trips| cooldown(trips, Duration::from_secs(30), Duration::from_secs(300)).as_secs())
            .collect();
        assert_eq!(cooldowns, [30, 60, 120, 240, 300, 300]);
    }

    #[test]
    fn retries_end_with_the_last_interval() {
        let list = [1, 4, 16].map(Duration::from_secs);
        assert_eq!(retry_pause(&list, 1), Some(Duration::from_secs(1)));
        assert_eq!(retry_pause(&list, 3), Some(Duration::from_secs(16)));
        assert_eq!(retry_pause(&list, 4), None);
        assert_eq!(retry_pause(&list, 0), None);
    }

    #[test]
    fn a_spread_pause_is_at_most_a_quarter_shorter_and_never_longer() {
        let pause = Duration::from_secs(4);
        assert_eq!(spread(pause, |_| 0), pause);
        assert_eq!(spread(pause, |bound| bound - 1), Duration::from_secs(3));
        assert_eq!(spread(Duration::ZERO, |bound| bound - 1), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_cooldown_never_exceeds_the_cap_nor_shrinks(trips in 0u32..10_000, base in 1u64..100_000, cap in 1u64..100_000) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let pause = cooldown(trips, base, cap);
            prop_assert!(pause <= cap);
            prop_assert!(pause <= cooldown(trips + 1, base, cap));
        }
    }
}
