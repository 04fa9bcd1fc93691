//! Clocks that tests control.

use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use everypage_core::{ports::clock::Clock, time::after};
use jiff::Timestamp;

/// 2026-11-16T00:00:00Z, an arbitrary start of time for tests.
pub fn epoch() -> Timestamp {
    Timestamp::from_second(1_794_787_200).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Advances only by [`ManualClock::advance`] and by `sleep`. For code that runs one task at a time.
pub struct ManualClock(Mutex<Timestamp>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(Mutex::new(epoch()))
    }
}

impl ManualClock {
    pub fn advance(&self, time: Duration) {
        let mut now = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *now = after(*now, time);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn sleep(&self, time: Duration) {
        self.advance(time);
        tokio::task::yield_now().await;
    }
}

/// Tokio's paused time as a clock: whenever every task waits, time jumps to the next timer. For
/// concurrent code; the runtime must be started paused.
pub struct VirtualClock {
    start: tokio::time::Instant,
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        after(epoch(), self.start.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that other code must use")]
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
