//! Published events, for whoever listens in this process.

use async_trait::async_trait;
use everypage_core::{
    domain::event::Event,
    ports::{Fault, bus::Bus},
};
use tokio::sync::broadcast;

/// A listener that falls this far behind misses some; the trail has them all.
const KEPT_FOR_SLOW_LISTENERS: usize = 4096;

pub struct LocalBus {
    sender: broadcast::Sender<Event>,
}

impl Default for LocalBus {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(KEPT_FOR_SLOW_LISTENERS) }
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
            // Nobody listening is fine.
            let _ = self.sender.send(event.clone());
        }
        Ok(())
    }
}
