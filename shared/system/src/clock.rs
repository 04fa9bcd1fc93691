//! The machine's own time.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::ports::clock::Clock;
use jiff::Timestamp;

pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that the others are told to ask")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that the others are told to ask")]
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
