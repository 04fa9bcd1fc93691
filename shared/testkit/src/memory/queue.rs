use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ids::Priority,
    ports::{
        Fault,
        clock::Clock,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
    time::after,
};
use jiff::Timestamp;

/// Messages that are there before no more are doubled: copies of copies would never end.
const MAX_DOUBLED: usize = 24;
/// As long as SQS allows.
const MAX_DELAY: Duration = Duration::from_secs(900);
/// How soon a message that can't be woken comes back.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Message {
    id: u64,
    name: String,
    lane: Priority,
    body: String,
    visible_at: Timestamp,
    receive_count: u32,
    /// Sent with a delay, and not received yet.
    is_delayed: bool,
}

#[derive(Default)]
struct State {
    messages: Vec<Message>,
    next_id: u64,
    received: u64,
    /// Messages in the dead-letter queue, where there is one.
    dead: Vec<Message>,
}

/// A queue in memory. With `twice` every message is delivered a second time, concurrently with the first, unless many are waiting.
pub struct MemoryQueue {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    twice: bool,
    /// Like an SQS redrive policy: a message that was received this often moves to the dead-letter
    /// queue. `None`: there is no dead-letter queue.
    max_receive_count: Option<u32>,
    can_wake: bool,
}

impl MemoryQueue {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), twice: false, max_receive_count: None, can_wake: true }
    }

    pub fn with_dead_letter_queue(clock: Arc<dyn Clock>, max_receive_count: u32) -> Self {
        Self { max_receive_count: Some(max_receive_count), ..Self::new(clock) }
    }

    /// Like SQS: a delayed message can't be delivered earlier, so it comes back soon by itself.
    pub fn that_cannot_wake(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock).without_wakes()
    }

    pub fn without_wakes(self) -> Self {
        Self { can_wake: false, ..self }
    }

    /// Like SQS's own redrive: every dead letter is sent again, unchanged, under a new id.
    pub fn redrive_all(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        for mut message in std::mem::take(&mut state.dead) {
            state.next_id += 1;
            (message.id, message.receive_count, message.visible_at) = (state.next_id, 0, now);
            state.messages.push(message);
        }
    }

    pub fn dead_letter_count(&self) -> usize {
        self.state().dead.len()
    }

    /// Puts a message that was never received into the dead-letter queue.
    pub fn put_dead_letter(&self, lane: Priority, body: &str) {
        let mut state = self.state();
        state.next_id += 1;
        let (id, visible_at) = (state.next_id, self.clock.now());
        let (name, body) = (id.to_string(), body.to_owned());
        state.dead.push(Message { id, name, lane, body, visible_at, receive_count: 0, is_delayed: false });
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
            let is_doubled = self.twice && state.messages.len() < MAX_DOUBLED;
            for _ in 0..if is_doubled { 2 } else { 1 } {
                state.next_id += 1;
                let id = state.next_id;
                state.messages.push(Message {
                    id,
                    name: message.name.clone(),
                    lane: message.lane,
                    body: message.body.clone(),
                    visible_at: after(now, message.delay),
                    receive_count: 0,
                    is_delayed: !message.delay.is_zero(),
                });
            }
        }
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.clock.now();
        let mut state = self.state();
        state.received += 1;
        if let Some(max) = self.max_receive_count {
            let exhausted = |message: &mut Message| message.visible_at <= now && message.receive_count >= max;
            let dead: Vec<Message> = state.messages.extract_if(.., exhausted).collect();
            state.dead.extend(dead);
        }
        // Every fifth receive takes the oldest first, whatever its lane: lower lanes never starve.
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

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.clock.now();
        let mut state = self.state();
        let visible = state.dead.iter_mut().filter(|message| message.visible_at <= now).take(max);
        Ok(visible.map(|message| deliver(message, after(now, visibility))).collect())
    }

    async fn wake(&self) -> Result<bool, Fault> {
        if !self.can_wake {
            return Ok(false);
        }
        let now = self.clock.now();
        for message in self.state().messages.iter_mut().filter(|message| message.is_delayed) {
            message.visible_at = message.visible_at.min(now);
        }
        Ok(true)
    }

    fn max_delay(&self) -> Duration {
        if self.can_wake { MAX_DELAY } else { RECHECK_INTERVAL }
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        let state = self.state();
        let count = |lane| state.messages.iter().filter(|message| message.lane == lane).count() as u64;
        Ok(Priority::ALL.map(|lane| (lane, count(lane))).to_vec())
    }
}

fn deliver(message: &mut Message, visible_at: Timestamp) -> Delivery {
    message.receive_count += 1;
    message.is_delayed = false;
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
