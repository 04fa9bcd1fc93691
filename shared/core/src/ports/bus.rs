//! Where stored events are made known: EventBridge on AWS, in-process listeners on one machine.

use async_trait::async_trait;

use crate::{event::Event, ports::Fault};

#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes in the given order, however many there are; none is published after one that failed.
    /// Listeners hear each event as it is stored, at least once. Those in this process hear them in
    /// order; behind EventBridge they may come in any, and an event's `sequence` tells its place.
    /// Only the outbox relay calls this, and only with stored events.
    async fn publish(&self, events: &[Event]) -> Result<(), Fault>;
}
