//! The current time and sleeping, from one source, so that a test controls both together.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    async fn sleep(&self, time: Duration);
}
