//! Permissions to run a parser process, given in [`Turns`].

use std::{collections::HashMap, sync::Arc};

use everypage_core::ids::TenantId;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    lane::Lane,
    turns::{Ticket, Turns},
};

pub(super) struct Slots {
    state: Mutex<State>,
}

struct State {
    turns: Turns,
    waiters: HashMap<Ticket, oneshot::Sender<()>>,
}

/// Permission to run one process, or a place in the queue for it; dropping it gives both up.
pub(super) struct Slot {
    slots: Arc<Slots>,
    ticket: Ticket,
}

impl Slots {
    pub fn new(cores: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { turns: Turns::new(cores), waiters: HashMap::new() }) })
    }

    /// Waits for a slot.
    pub async fn acquire(self: &Arc<Self>, lane: Lane, tenant: &TenantId) -> Slot {
        let (sender, started) = oneshot::channel();
        let slot = {
            let mut state = self.state.lock();
            let ticket = state.turns.arrive(lane, tenant);
            state.waiters.insert(ticket, sender);
            state.start_waiters();
            // From here on a dropped future leaves the queue.
            Slot { slots: self.clone(), ticket }
        };
        // The sender is dropped only after it has sent.
        let _ = started.await;
        slot
    }

    /// Running processes over the number of cores, if `idle` more are kept.
    pub fn excess(&self, idle: usize) -> usize {
        let state = self.state.lock();
        (state.turns.running() + idle).saturating_sub(state.turns.cores())
    }
}

impl State {
    fn start_waiters(&mut self) {
        while let Some(ticket) = self.turns.next() {
            if let Some(waiter) = self.waiters.remove(&ticket) {
                let _ = waiter.send(());
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state.waiters.remove(&self.ticket);
        state.turns.leave(self.ticket);
        state.start_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_dropped_slot_or_waiter_lets_the_next_one_start() {
        let slots = Slots::new(1);
        let acme = TenantId::new("acme");
        let held = slots.acquire(Lane::Images, &acme).await;
        let mut second = Box::pin(slots.acquire(Lane::Images, &acme));
        let mut third = Box::pin(slots.acquire(Lane::Images, &acme));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(second);
        assert!(third.as_mut().now_or_never().is_none());
        drop(held);
        let slot = third.now_or_never().expect("its turn");
        assert_eq!(slots.excess(1), 1);
        drop(slot);
        assert_eq!(slots.excess(1), 0);
    }
}
