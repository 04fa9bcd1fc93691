//! Arithmetic on timestamps, and time limits for work.

use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;

use crate::ports::clock::Clock;

/// Runs `work` for at most `limit`; on timeout it drops `work` and returns `None`.
pub async fn within<T>(clock: &dyn Clock, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let work = std::pin::pin!(work);
    match select(work, clock.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// The time from `now` to `then`; zero if `then` has passed.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// `now + time`, limited to the latest representable time instead of failing.
pub fn after(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}
