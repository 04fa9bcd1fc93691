//! A queue that keeps its word and nothing more: messages come twice, late, and back too early.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::ids::Priority,
    ports::{
        Fault,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
};
use everypage_testkit::memory::MemoryQueue;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    plan::Plan,
    trouble::{Messages, Trouble, name},
    witness::Witness,
};

pub struct Post {
    queue: Arc<MemoryQueue>,
    plan: Arc<Plan>,
    witness: Arc<Witness>,
    state: Mutex<State>,
}

struct State {
    dice: StdRng,
    /// Sent, and not to be seen before their time.
    late: Vec<(Duration, Outgoing)>,
    copies: u64,
}

impl Post {
    pub fn new(queue: Arc<MemoryQueue>, plan: &Arc<Plan>, witness: &Arc<Witness>) -> Self {
        let dice = StdRng::seed_from_u64(plan.seed.rotate_left(17));
        let state = Mutex::new(State { dice, late: vec![], copies: 0 });
        Self { queue, plan: plan.clone(), witness: witness.clone(), state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What the post does to a message just now.
    fn moods(&self) -> Vec<Messages> {
        let now = self.witness.now();
        let mut state = self.lock();
        let struck = self.plan.troubles.iter().filter_map(|trouble| match trouble {
            Trouble::Messages { window, one_in, messages } if window.covers(now) => {
                (state.dice.random_range(0..*one_in) == 0).then_some(*messages)
            }
            _ => None,
        });
        struck.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.lock().late.is_empty()
    }
}

#[async_trait]
impl Queue for Post {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        let mut now = Vec::new();
        for message in messages {
            let moods = self.moods();
            let mut copies = vec![message.clone()];
            for mood in moods.iter().filter(|mood| !matches!(mood, Messages::ComeBackAfter(_))) {
                self.witness.struck(&format!("messages: {}", name(mood)));
            }
            if moods.contains(&Messages::ComeTwice) {
                let mut state = self.lock();
                state.copies += 1;
                copies
                    .push(Outgoing { name: format!("{}#{}", message.name, state.copies), ..message.clone() });
            }
            let late = moods.iter().find_map(|mood| match mood {
                Messages::ComeLate(by) => Some(*by),
                _ => None,
            });
            match late {
                Some(by) => {
                    let at = self.witness.now() + by;
                    self.lock().late.extend(copies.into_iter().map(|message| (at, message)));
                }
                None => now.extend(copies),
            }
        }
        self.queue.send(&now).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.witness.now();
        let due: Vec<Outgoing> =
            self.lock().late.extract_if(.., |(at, _)| *at <= now).map(|(_, message)| message).collect();
        self.queue.send(&due).await?;
        let hidden = self.moods().into_iter().fold(visibility, |hidden, mood| match mood {
            Messages::ComeBackAfter(after) => hidden.min(after),
            _ => hidden,
        });
        let dead = self.queue.dead_letter_count();
        let received = self.queue.receive(max, hidden).await?;
        for _ in dead..self.queue.dead_letter_count() {
            self.witness.struck("messages: buried by the queue");
        }
        for delivery in &received {
            if hidden < visibility {
                self.witness.struck("messages: ComeBackAfter");
            }
            self.witness
                .note(|| format!("message {} is delivered, {}.", delivery.id, delivery.receive_count));
        }
        Ok(received)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.queue.extend(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.queue.delete(receipt).await
    }

    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.queue.receive_dead(max, visibility).await
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.queue.depths().await
    }
}
