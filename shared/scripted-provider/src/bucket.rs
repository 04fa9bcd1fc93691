//! A bucket of requests or tokens that refills continuously, as the providers' limits do.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// An amount per time, written `60/60s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub amount: u64,
    pub per_ms: u64,
}

/// What a provider announces about one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// The time until the bucket is full.
    pub(super) full_in: Duration,
}

/// Full at the start; holds at most `rate.amount`.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// The content at `at`; fractions count.
    content: f64,
    at: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, content: rate.amount as f64, at: None }
    }

    /// The time until `amount` could be taken; zero if it can be taken now. More than the bucket
    /// holds can be taken when it is full.
    pub(super) fn wait_for(&mut self, amount: u64, now: Instant) -> Duration {
        self.refill(now);
        self.time_to(amount.min(self.rate.amount) as f64)
    }

    pub(super) fn take(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.content = (self.content - amount as f64).max(0.0);
    }

    pub(super) fn level(&mut self, now: Instant) -> Level {
        self.refill(now);
        Level {
            limit: self.rate.amount,
            remaining: self.content as u64,
            full_in: self.time_to(self.rate.amount as f64),
        }
    }

    fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at.unwrap_or(now));
        self.at = Some(now.max(self.at.unwrap_or(now)));
        let full = self.rate.amount as f64;
        self.content = (self.content + since.as_secs_f64() * self.per_second()).min(full);
    }

    fn time_to(&self, content: f64) -> Duration {
        // Less than a millionth is a rounding error.
        let missing = content - self.content;
        if missing < 1e-6 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second()).unwrap_or(Duration::MAX)
    }

    fn per_second(&self) -> f64 {
        self.rate.amount as f64 * 1000.0 / self.rate.per_ms.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_IN_10_S: Rate = Rate { amount: 10, per_ms: 10_000 };

    #[tokio::test(start_paused = true)]
    async fn a_bucket_empties_and_refills() {
        let mut bucket = Bucket::new(TEN_IN_10_S);
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(bucket.wait_for(1, start), Duration::ZERO);
            bucket.take(1, start);
        }
        assert_eq!(bucket.wait_for(1, start), Duration::from_secs(1));
        let level = Level { limit: 10, remaining: 0, full_in: Duration::from_secs(10) };
        assert_eq!(bucket.level(start), level);
        let later = start + Duration::from_millis(2500);
        assert_eq!((bucket.wait_for(2, later), bucket.level(later).remaining), (Duration::ZERO, 2));
        assert_eq!(bucket.wait_for(3, later), Duration::from_millis(500));
        assert_eq!(bucket.level(start + Duration::from_secs(60)).remaining, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_the_bucket_holds_waits_until_it_is_full() {
        let mut bucket = Bucket::new(TEN_IN_10_S);
        let start = Instant::now();
        bucket.take(4, start);
        assert_eq!(bucket.wait_for(25, start), Duration::from_secs(4));
        bucket.take(25, start);
        assert_eq!(bucket.level(start).remaining, 0);
    }
}
