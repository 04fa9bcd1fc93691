//! Where stored events are made known: EventBridge on AWS, in-process listeners on one machine.

use async_trait::async_trait;

use super::Fault;
use crate::domain::event::Event;

#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes in the given order. Only the outbox relay calls this, and only with stored events.
    async fn publish(&self, events: &[Event]) -> Result<(), Fault>;
}
