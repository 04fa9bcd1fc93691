//! The machine's own clock.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::clock::Clock;
use jiff::Timestamp;

pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time")]
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
