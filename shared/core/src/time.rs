//! Arithmetic on timestamps, and time limits for work.

use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;

use crate::ports::clock::Clock;

/// Runs `work` for at most `limit`; `None` when the time ran out (the work is dropped then).
pub async fn within<T>(clock: &dyn Clock, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let work = std::pin::pin!(work);
    match select(work, clock.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// Time from `now` to `then`, zero when that has passed.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// `now + time`, held at the end of time rather than failing.
pub fn after(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}
