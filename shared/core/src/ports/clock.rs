//! Time, told and passed by the same source, so that no test moves one and forgets the other.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    async fn sleep(&self, time: Duration);
}
