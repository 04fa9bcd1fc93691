//! Publishes stored events: to EventBridge on AWS, to in-process listeners on one machine.

use async_trait::async_trait;

use crate::{event::Event, ports::Fault};

#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes any number of events in the given order and stops at the first failure. Delivery is
    /// at least once: in order to listeners in this process; in any order through EventBridge, where
    /// receivers order events by `sequence`. Only the outbox relay calls this, with stored events.
    async fn publish(&self, events: &[Event]) -> Result<(), Fault>;
}
