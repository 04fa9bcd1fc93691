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

#[derive(Clone)]
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
    /// With a place for the dead: those that lie there.
    dead: Vec<Message>,
}

/// A queue in memory. With `twice` every message is delivered a second time, beside the first.
pub struct MemoryQueue {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    twice: bool,
    /// As SQS does with a redrive policy: a message is delivered this often and then lies with the
    /// dead. Without, there is no such place.
    most_deliveries: Option<u32>,
}

impl MemoryQueue {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), twice: false, most_deliveries: None }
    }

    pub fn burying_after(clock: Arc<dyn Clock>, deliveries: u32) -> Self {
        Self { most_deliveries: Some(deliveries), ..Self::new(clock) }
    }

    /// What SQS's own redrive does: everything dead is sent again, as it was, under a new name.
    pub fn redrive_all(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        for mut message in std::mem::take(&mut state.dead) {
            state.next_id += 1;
            (message.id, message.receive_count, message.visible_at) = (state.next_id, 0, now);
            state.messages.push(message);
        }
    }

    pub fn dead(&self) -> usize {
        self.state().dead.len()
    }

    /// Lays a message among the dead that no worker ever saw.
    pub fn lay_dead(&self, lane: Priority, body: &str) {
        let mut state = self.state();
        state.next_id += 1;
        let (id, visible_at) = (state.next_id, self.clock.now());
        let (name, body) = (id.to_string(), body.to_owned());
        state.dead.push(Message { id, name, lane, body, visible_at, receive_count: 0 });
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
        if let Some(most) = self.most_deliveries {
            let worn_out = |message: &mut Message| message.visible_at <= now && message.receive_count >= most;
            let dead: Vec<Message> = state.messages.extract_if(.., worn_out).collect();
            state.dead.extend(dead);
        }
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
            .map(|index| deliver(&mut state.messages[index], after(now, visibility)))
            .collect())
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        let visible_at = after(self.clock.now(), visibility);
        let mut state = self.state();
        let State { messages, dead, .. } = &mut *state;
        if let Some(message) = messages.iter_mut().chain(dead).find(|message| holds(message, receipt)) {
            message.visible_at = visible_at;
        }
        Ok(())
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        let mut state = self.state();
        state.messages.retain(|message| !holds(message, receipt));
        state.dead.retain(|message| !holds(message, receipt));
        Ok(())
    }

    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.clock.now();
        let mut state = self.state();
        let visible = state.dead.iter_mut().filter(|message| message.visible_at <= now).take(max);
        Ok(visible.map(|message| deliver(message, after(now, visibility))).collect())
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        let state = self.state();
        let count = |lane| state.messages.iter().filter(|message| message.lane == lane).count() as u64;
        Ok(Priority::ALL.map(|lane| (lane, count(lane))).to_vec())
    }
}

fn deliver(message: &mut Message, visible_at: Timestamp) -> Delivery {
    message.receive_count += 1;
    message.visible_at = visible_at;
    Delivery {
        id: message.id.to_string(),
        receipt: Receipt(format!("{}/{}", message.id, message.receive_count)),
        lane: message.lane,
        body: message.body.clone(),
        receive_count: message.receive_count,
    }
}

fn holds(message: &Message, receipt: &Receipt) -> bool {
    receipt.0 == format!("{}/{}", message.id, message.receive_count)
}
