//! The event bus inside one process: published events go to its subscribers.

use async_trait::async_trait;
use everypage_core::{
    event::Event,
    ports::{Fault, bus::Bus},
};
use tokio::sync::broadcast;

/// A subscriber that is more events behind misses the oldest; the trail has all of them.
const SUBSCRIBER_BUFFER: usize = 4096;

pub struct LocalBus {
    sender: broadcast::Sender<Event>,
}

impl Default for LocalBus {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(SUBSCRIBER_BUFFER) }
    }
}

impl LocalBus {
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

#[async_trait]
impl Bus for LocalBus {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        for event in events {
            // Fails only without subscribers, which is not an error.
            let _ = self.sender.send(event.clone());
        }
        Ok(())
    }
}
