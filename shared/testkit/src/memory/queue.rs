use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::ids::Priority,
    ports::{
        Fault,
        clock::{Clock, after},
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
};
use jiff::Timestamp;

struct Message {
    id: u64,
    name: String,
    lane: Priority,
    body: String,
    visible_at: Timestamp,
    receive_count: u32,
}

#[derive(Default)]
struct State {
    messages: Vec<Message>,
    next_id: u64,
    received: u64,
}

/// A queue in memory. With `twice` every message is delivered a second time, beside the first.
pub struct MemoryQueue {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    twice: bool,
}

impl MemoryQueue {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), twice: false }
    }

    pub fn delivering_twice(clock: Arc<dyn Clock>) -> Self {
        Self { twice: true, ..Self::new(clock) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn len(&self) -> usize {
        self.state().messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        let now = self.clock.now();
        let mut state = self.state();
        for message in messages {
            if !self.twice && state.messages.iter().any(|waiting| waiting.name == message.name) {
                continue;
            }
            for _ in 0..if self.twice { 2 } else { 1 } {
                state.next_id += 1;
                let id = state.next_id;
                state.messages.push(Message {
                    id,
                    name: message.name.clone(),
                    lane: message.lane,
                    body: message.body.clone(),
                    visible_at: now,
                    receive_count: 0,
                });
            }
        }
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.clock.now();
        let mut state = self.state();
        state.received += 1;
        // Every fifth look takes the oldest first, whatever its lane: lower lanes never starve.
        let oldest_first = state.received.is_multiple_of(5);
        let mut order: Vec<usize> =
            (0..state.messages.len()).filter(|index| state.messages[*index].visible_at <= now).collect();
        if !oldest_first {
            order.sort_by_key(|index| std::cmp::Reverse(state.messages[*index].lane));
        }
        order.truncate(max);
        Ok(order
            .into_iter()
            .map(|index| {
                let message = &mut state.messages[index];
                message.receive_count += 1;
                message.visible_at = after(now, visibility);
                Delivery {
                    id: message.id.to_string(),
                    receipt: Receipt(format!("{}/{}", message.id, message.receive_count)),
                    lane: message.lane,
                    body: message.body.clone(),
                    receive_count: message.receive_count,
                }
            })
            .collect())
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        let visible_at = after(self.clock.now(), visibility);
        let mut state = self.state();
        if let Some(message) = state.messages.iter_mut().find(|message| holds(message, receipt)) {
            message.visible_at = visible_at;
        }
        Ok(())
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.state().messages.retain(|message| !holds(message, receipt));
        Ok(())
    }
}

fn holds(message: &Message, receipt: &Receipt) -> bool {
    receipt.0 == format!("{}/{}", message.id, message.receive_count)
}
