//! Limits of a provider: calls at once, requests and tokens per time.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    Rate,
    bucket::{Bucket, Level},
};

/// Calls above any of these get 429 and use nothing up; the next rule decides about the others.
/// All calls that reach the rule share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    pub at_once: Option<u32>,
    pub requests: Option<Rate>,
    /// Of input: text and images.
    pub tokens: Option<Rate>,
    /// Of answers, which are taken when they are sent: a call is refused while nothing is left.
    pub output_tokens: Option<Rate>,
    pub retry_after: Option<RetryAfter>,
    /// Announces requests and tokens in the headers of every response, refused or not.
    pub headers: bool,
}

/// The `Retry-After` of a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// The whole seconds after which this call would have been taken; 1 where only calls in flight
    /// are in its way.
    Auto,
    Seconds(u32),
}

/// A limit in use.
#[derive(Debug)]
pub(super) struct Limiter {
    retry_after: Option<RetryAfter>,
    slots: Option<Arc<Semaphore>>,
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    output_tokens: Option<Bucket>,
}

/// The state that the headers announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) requests: Option<Level>,
    pub(super) tokens: Option<Level>,
    pub(super) output_tokens: Option<Level>,
}

impl Limiter {
    pub(super) fn new(limit: &Limit) -> Self {
        let buckets = Buckets {
            requests: limit.requests.map(Bucket::new),
            tokens: limit.tokens.map(Bucket::new),
            output_tokens: limit.output_tokens.map(Bucket::new),
        };
        Self {
            retry_after: limit.retry_after,
            slots: limit.at_once.map(|slots| Arc::new(Semaphore::new(slots as usize))),
            buckets: Mutex::new(buckets),
        }
    }

    /// Takes a call of this many tokens, with its slot until that is dropped; a refused one gets its
    /// `Retry-After`.
    pub(super) fn admit(
        &self,
        tokens: u64,
        now: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, Option<u32>> {
        let mut buckets = self.buckets();
        let wait = buckets.wait_for(tokens, now);
        if !wait.is_zero() {
            return Err(self.retry_after(wait));
        }
        let slot = self.slots.as_ref().map(|slots| Arc::clone(slots).try_acquire_owned()).transpose();
        let slot = slot.map_err(|_| self.retry_after(Duration::ZERO))?;
        buckets.take(tokens, now);
        Ok(slot)
    }

    /// Whether a call of this many tokens would be refused because of them.
    pub(super) fn lacks_tokens(&self, tokens: u64, now: Instant) -> bool {
        self.buckets().tokens.as_mut().is_some_and(|bucket| !bucket.wait_for(tokens, now).is_zero())
    }

    /// Takes the tokens of an answer.
    pub(super) fn answered(&self, tokens: u64, now: Instant) {
        if let Some(bucket) = &mut self.buckets().output_tokens {
            bucket.take(tokens, now);
        }
    }

    pub(super) fn levels(&self, now: Instant) -> Levels {
        let mut buckets = self.buckets();
        Levels {
            requests: buckets.requests.as_mut().map(|bucket| bucket.level(now)),
            tokens: buckets.tokens.as_mut().map(|bucket| bucket.level(now)),
            output_tokens: buckets.output_tokens.as_mut().map(|bucket| bucket.level(now)),
        }
    }

    fn retry_after(&self, wait: Duration) -> Option<u32> {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        self.retry_after.map(|retry_after| match retry_after {
            RetryAfter::Auto => u32::try_from(seconds).unwrap_or(u32::MAX),
            RetryAfter::Seconds(seconds) => seconds,
        })
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock()
    }
}

impl Buckets {
    fn wait_for(&mut self, tokens: u64, now: Instant) -> Duration {
        let requests = self.requests.as_mut().map(|bucket| bucket.wait_for(1, now));
        let tokens = self.tokens.as_mut().map(|bucket| bucket.wait_for(tokens, now));
        let output = self.output_tokens.as_mut().map(|bucket| bucket.wait_for(1, now));
        requests.max(tokens).max(output).unwrap_or_default()
    }

    fn take(&mut self, tokens: u64, now: Instant) {
        for (bucket, amount) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
            if let Some(bucket) = bucket {
                bucket.take(amount, now);
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |name: &str, rate: Option<Rate>| {
            rate.map(|Rate { amount, per_ms }| format!(";{name}={amount}/{per_ms}ms")).unwrap_or_default()
        };
        f.write_str("limit")?;
        if let Some(calls) = self.at_once {
            write!(f, ";at-once={calls}")?;
        }
        write!(f, "{}{}", rate("requests", self.requests), rate("tokens", self.tokens))?;
        f.write_str(&rate("output-tokens", self.output_tokens))?;
        match self.retry_after {
            Some(RetryAfter::Auto) => f.write_str(";retry-after=auto")?,
            Some(RetryAfter::Seconds(seconds)) => write!(f, ";retry-after={seconds}")?,
            None => {}
        }
        if self.headers { f.write_str(";headers") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(options: &str) -> Limiter {
        let rule: crate::Rule = format!("limit;{options}").parse().unwrap();
        let crate::Behaviour::Limit(limit) = rule.then else { panic!("{options}") };
        Limiter::new(&limit)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_free_again_when_its_call_ends() {
        let (limiter, now) = (limiter("at-once=2"), Instant::now());
        let first = limiter.admit(1, now).unwrap();
        let _second = limiter.admit(1, now).unwrap();
        assert_eq!(limiter.admit(1, now).unwrap_err(), None);
        drop(first);
        assert!(limiter.admit(1, now).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_the_time_until_the_call_would_be_taken() {
        let (limiter, now) = (limiter("requests=4/10s;tokens=1000/100s;retry-after=auto"), Instant::now());
        for _ in 0..4 {
            assert!(limiter.admit(10, now).is_ok());
        }
        assert_eq!(limiter.admit(10, now).unwrap_err(), Some(3), "2.5 s in whole seconds");
        assert!(limiter.admit(10, now + Duration::from_secs(3)).is_ok());
        let later = now + Duration::from_secs(20);
        let tokens = limiter.levels(later).tokens.unwrap();
        assert_eq!((tokens.limit, tokens.remaining), (1000, 1000), "50 used, 200 refilled");
        assert!(limiter.admit(1000, later).is_ok());
        assert_eq!(limiter.admit(100, later).unwrap_err(), Some(10));
        assert!(
            limiter.lacks_tokens(100, later) && !limiter.lacks_tokens(100, later + Duration::from_secs(11))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_call_uses_nothing_up() {
        let (limiter, now) = (limiter("at-once=1;requests=2/60s;retry-after=7"), Instant::now());
        let slot = limiter.admit(0, now).unwrap();
        assert_eq!(limiter.admit(0, now).unwrap_err(), Some(7));
        drop(slot);
        assert!(limiter.admit(0, now).is_ok());
        assert_eq!(limiter.levels(now).requests.unwrap().remaining, 0);
    }
}
