//! A queue that guarantees at-least-once delivery and nothing more: messages are delivered twice, late,
//! and again while they are still in work.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ids::Priority,
    ports::{
        Fault,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
};
use everypage_testkit::memory::MemoryQueue;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    faults::{MessageFault, PlannedFault, name},
    observer::Observer,
    run_plan::RunPlan,
};

pub struct ChaosQueue {
    queue: Arc<MemoryQueue>,
    plan: Arc<RunPlan>,
    observer: Arc<Observer>,
    state: Mutex<State>,
}

struct State {
    rng: StdRng,
    /// Sent messages that become visible only later, each with that time.
    late: Vec<(Duration, Outgoing)>,
    copies: u64,
}

impl ChaosQueue {
    pub fn new(queue: Arc<MemoryQueue>, plan: &Arc<RunPlan>, observer: &Arc<Observer>) -> Self {
        let rng = StdRng::seed_from_u64(plan.seed.rotate_left(17));
        let state = Mutex::new(State { rng, late: vec![], copies: 0 });
        Self { queue, plan: plan.clone(), observer: observer.clone(), state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Draws which faults affect a message now.
    fn draw_faults(&self) -> Vec<MessageFault> {
        let now = self.observer.now();
        let mut state = self.lock();
        let drawn = self.plan.faults.iter().filter_map(|fault| match fault {
            PlannedFault::Messages { window, one_in, kind } if window.covers(now) => {
                (state.rng.random_range(0..*one_in) == 0).then_some(*kind)
            }
            _ => None,
        });
        drawn.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.lock().late.is_empty()
    }
}

#[async_trait]
impl Queue for ChaosQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        let mut now = Vec::new();
        for message in messages {
            let faults = self.draw_faults();
            let mut copies = vec![message.clone()];
            for fault in faults.iter().filter(|fault| !matches!(fault, MessageFault::RedeliveredAfter(_))) {
                self.observer.count_fault(&format!("messages: {}", name(fault)));
            }
            if faults.contains(&MessageFault::DeliveredTwice) {
                let mut state = self.lock();
                state.copies += 1;
                copies
                    .push(Outgoing { name: format!("{}#{}", message.name, state.copies), ..message.clone() });
            }
            let late = faults.iter().find_map(|fault| match fault {
                MessageFault::DeliveredLate(by) => Some(*by),
                _ => None,
            });
            match late {
                Some(by) => {
                    let at = self.observer.now() + by;
                    self.lock().late.extend(copies.into_iter().map(|message| (at, message)));
                }
                None => now.extend(copies),
            }
        }
        self.queue.send(&now).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let now = self.observer.now();
        let due: Vec<Outgoing> =
            self.lock().late.extract_if(.., |(at, _)| *at <= now).map(|(_, message)| message).collect();
        self.queue.send(&due).await?;
        let hidden = self.draw_faults().into_iter().fold(visibility, |hidden, fault| match fault {
            MessageFault::RedeliveredAfter(after) => hidden.min(after),
            _ => hidden,
        });
        let dead = self.queue.dead_letter_count();
        let received = self.queue.receive(max, hidden).await?;
        for _ in dead..self.queue.dead_letter_count() {
            self.observer.count_fault("messages: dead-lettered by the queue");
        }
        for delivery in &received {
            if hidden < visibility {
                self.observer.count_fault("messages: RedeliveredAfter");
            }
            let again = delivery.receive_count > 1 && self.plan.delivers_once();
            let visible = || Err(format!("message {} is delivered again while in work", delivery.id));
            self.observer.check("queue", if again { visible() } else { Ok(()) });
            self.observer
                .log(|| format!("message {} is delivered (receive {})", delivery.id, delivery.receive_count));
        }
        Ok(received)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.queue.extend(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.queue.delete(receipt).await
    }

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.queue.receive_dead_letters(max, visibility).await
    }

    async fn wake(&self) -> Result<bool, Fault> {
        self.queue.wake().await
    }

    fn max_delay(&self) -> Duration {
        self.queue.max_delay()
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.queue.depths().await
    }
}
