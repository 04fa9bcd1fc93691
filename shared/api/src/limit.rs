//! Rate limit per caller: `RATE_LIMIT` requests per second, and a burst of twice as many.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use everypage_core::{ports::clock::Clock, time::until};
use governor::{Quota, RateLimiter, middleware::NoOpMiddleware, state::keyed::HashMapStateStore};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};

use crate::{
    Api, Caller,
    problem::{Code, Problem},
};

/// The burst, in seconds of the rate.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
/// Callers that the limiter tracks at a time; those with a full quota are discarded first.
const MAX_CALLERS: usize = 10_000;

/// The address that a request comes from: identifies callers without a key. The server puts it into the
/// request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

type Limiter = RateLimiter<String, HashMapStateStore<String>, MonotonicClock, NoOpMiddleware<Duration>>;

/// One quota for each caller.
pub struct Limits {
    per_second: NonZeroU32,
    clock: MonotonicClock,
    limiter: RwLock<Limiter>,
}

impl Limits {
    pub fn new(per_second: NonZeroU32, clock: Arc<dyn Clock>) -> Self {
        let clock = MonotonicClock::new(clock);
        Self { per_second, limiter: RwLock::new(limiter(per_second, &clock)), clock }
    }

    /// Counts one request of `caller`; `Err` is the time until the next one is allowed.
    fn check(&self, caller: &String) -> Result<(), Duration> {
        self.make_room();
        let now = governor::clock::Clock::now(&self.clock);
        self.limiter.read().check_key(caller).map_err(|refused| refused.wait_time_from(now))
    }

    /// Discards callers when there are too many to track.
    fn make_room(&self) {
        if self.limiter.read().len() < MAX_CALLERS {
            return;
        }
        let mut current = self.limiter.write();
        current.retain_recent();
        // So many active callers are an attack: discarding all of them favours none.
        if current.len() >= MAX_CALLERS {
            *current = limiter(self.per_second, &self.clock);
        }
    }
}

fn limiter(per_second: NonZeroU32, clock: &MonotonicClock) -> Limiter {
    let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(BURST));
    RateLimiter::hashmap_with_clock(quota, clock.clone())
}

/// The service's clock as governor needs it: while the wall clock is set back, no time passes. Otherwise
/// callers would be refused until it has caught up.
#[derive(Clone)]
struct MonotonicClock {
    wall: Arc<dyn Clock>,
    /// The last reading of the wall clock, and the time that has passed up to it.
    reading: Arc<Mutex<(Timestamp, Duration)>>,
}

impl MonotonicClock {
    fn new(wall: Arc<dyn Clock>) -> Self {
        let reading = Arc::new(Mutex::new((wall.now(), Duration::ZERO)));
        Self { wall, reading }
    }
}

impl governor::clock::Clock for MonotonicClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        let mut reading = self.reading.lock();
        let (last, elapsed) = *reading;
        let now = self.wall.now();
        *reading = (now, elapsed.saturating_add(until(last, now)));
        reading.1
    }
}

/// Middleware: answers 429 with `Retry-After` when the caller is over its rate.
pub async fn limit(State(api): State<Api>, request: Request, next: Next) -> Response {
    // A busy service must not look like a dead one.
    let is_health = matches!(request.uri().path(), "/healthz" | "/readyz");
    let Some(limits) = api.limits.as_ref().filter(|_| !is_health) else { return next.run(request).await };
    let extensions = request.extensions();
    let caller = match (extensions.get::<Caller>(), extensions.get::<Peer>()) {
        (Some(caller), _) => caller.identity(),
        (None, Some(Peer(address))) => address.to_string(),
        (None, None) => String::new(),
    };
    match limits.check(&caller) {
        Ok(()) => next.run(request).await,
        Err(wait) => {
            let detail = format!("more than {} requests per second (RATE_LIMIT)", limits.per_second);
            let seconds = wait.as_secs_f64().ceil().max(1.0);
            Problem::new(Code::TooManyRequests, detail)
                .with_header("retry-after", &seconds.to_string())
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    struct TestClock(Mutex<Timestamp>);

    #[async_trait]
    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            *self.0.lock()
        }

        async fn sleep(&self, _: Duration) {}
    }

    fn limits(per_second: u32) -> (Limits, impl Fn(i64)) {
        let clock = Arc::new(TestClock(Mutex::new(Timestamp::UNIX_EPOCH)));
        let limits = Limits::new(NonZeroU32::new(per_second).unwrap(), clock.clone());
        (limits, move |millis| *clock.0.lock() = Timestamp::from_millisecond(millis).unwrap())
    }

    #[test]
    fn each_caller_has_a_burst_and_then_its_rate() {
        let (limits, set_clock) = limits(5);
        let allowed = |caller: &str, times: usize| {
            (0..times).filter(|_| limits.check(&caller.to_owned()).is_ok()).count()
        };
        assert_eq!(allowed("a", 20), 10, "a burst");
        assert_eq!(limits.check(&"a".into()), Err(Duration::from_millis(200)));
        assert_eq!(allowed("b", 3), 3, "another caller's quota");
        set_clock(1000);
        assert_eq!(allowed("a", 20), 5);
        set_clock(900_000);
        assert_eq!(allowed("a", 20), 10, "never more than the burst");
        // A clock that is set back allows nothing more, and then counts on from there.
        set_clock(0);
        assert_eq!(allowed("a", 1), 0);
        set_clock(1000);
        assert_eq!(allowed("a", 20), 5);
    }

    #[test]
    fn the_number_of_tracked_callers_is_limited() {
        let (limits, set_clock) = limits(1);
        for number in 0..3 * MAX_CALLERS {
            let _ = limits.check(&number.to_string());
        }
        assert!(limits.limiter.read().len() <= MAX_CALLERS);
        // Callers with a full quota go first; one that is over its rate is still refused.
        while limits.check(&"busy".into()).is_ok() {}
        set_clock(1000);
        while limits.check(&"busy".into()).is_ok() {}
        for number in 0..MAX_CALLERS / 2 {
            let _ = limits.check(&format!("again {number}"));
        }
        assert!(limits.check(&"busy".into()).is_err());
    }
}
