//! How often one caller may ask.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use everypage_core::ports::clock::until;
use jiff::Timestamp;

use crate::{
    Api, Caller,
    problem::{self, Problem},
};

/// For a moment a caller may ask as often as in so many seconds.
const BURST: f64 = 2.0;
/// Callers that are remembered; those who have not asked for a while are forgotten first.
const MOST_CALLERS: usize = 10_000;

/// Where a request comes from, for whom no key tells; put into its extensions by the server.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// A bucket of tokens for each caller: one is taken by each request, and they come back with time.
pub struct Limits {
    per_second: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl Limits {
    pub fn new(per_second: NonZeroU32) -> Self {
        Self { per_second: f64::from(per_second.get()), buckets: Mutex::default() }
    }

    /// Takes a token; else says when there will be one.
    fn take(&self, who: String, now: Timestamp) -> Result<(), Duration> {
        let full = self.per_second * BURST;
        let filled = |bucket: Bucket| {
            (bucket.tokens + until(bucket.at, now).as_secs_f64() * self.per_second).min(full)
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_CALLERS && !buckets.contains_key(&who) {
            buckets.retain(|_, bucket| filled(*bucket) < full);
            // All of them at once is an attack, and nobody in particular is to be spared.
            if buckets.len() >= MOST_CALLERS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(who).or_insert(Bucket { tokens: full, at: now });
        let tokens = filled(*bucket);
        *bucket = Bucket { tokens: if tokens >= 1.0 { tokens - 1.0 } else { tokens }, at: now };
        match tokens >= 1.0 {
            true => Ok(()),
            false => Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second)),
        }
    }
}

/// Lets a request pass if its caller has not asked too often.
pub async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let Some(limits) = &api.limits else { return next.run(request).await };
    let extensions = request.extensions();
    let who = match (extensions.get::<Caller>(), extensions.get::<Peer>()) {
        (Some(caller), _) => format!("{}/{}", caller.tenant, caller.user),
        (None, Some(Peer(address))) => address.to_string(),
        (None, None) => String::new(),
    };
    match limits.take(who, api.app.clock.now()) {
        Ok(()) => next.run(request).await,
        Err(wait) => {
            let detail =
                format!("more than {} requests a second over a while (RATE_LIMIT)", limits.per_second);
            let seconds = wait.as_secs_f64().ceil().max(1.0);
            Problem::new(&problem::TOO_MANY_REQUESTS, detail)
                .with_header("retry-after", &seconds.to_string())
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_a_burst_and_then_its_rate() {
        let limits = Limits::new(NonZeroU32::new(5).unwrap());
        let at = |millis: i64| Timestamp::from_millisecond(millis).unwrap();
        let taken = |who: &str, now: i64, times: usize| {
            (0..times).filter(|_| limits.take(who.to_owned(), at(now)).is_ok()).count()
        };
        assert_eq!(taken("a", 0, 20), 10, "a burst");
        assert_eq!(limits.take("a".into(), at(0)), Err(Duration::from_millis(200)));
        assert_eq!(taken("b", 0, 3), 3, "somebody else's bucket");
        assert_eq!(taken("a", 1000, 20), 5);
        assert_eq!(taken("a", 900_000, 20), 10, "never more than full");
        // A clock that goes back gives nothing and breaks nothing.
        assert_eq!(taken("a", 0, 1), 0);
    }

    #[test]
    fn callers_are_not_remembered_without_end() {
        let limits = Limits::new(NonZeroU32::new(1).unwrap());
        for number in 0..3 * MOST_CALLERS {
            let _ = limits.take(number.to_string(), Timestamp::UNIX_EPOCH);
        }
        assert!(limits.buckets.lock().unwrap().len() <= MOST_CALLERS);
    }
}
