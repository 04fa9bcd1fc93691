//! In-flight slots: at most so many calls to one model, across every worker there is.
//!
//! Inside one process a semaphore queues callers fairly and wakes them at once; between processes
//! leased records do the counting. A slot that was never given back lapses with its lease.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::keys::record;
use crate::records::{decode, encode};
use crate::{
    app::{App, Stop},
    ids::Priority,
    lease::Lease,
    ports::{
        Fault,
        records::{Change, Draft, Item, Key, When, Written},
    },
    providers::target::Target,
    read::slot::free_slot,
    time::{after, until, within},
};

/// How soon a page looks again when others hold all slots: the more urgent it is, the likelier it is the
/// first to see that one is free.
fn look_again(priority: Priority) -> Duration {
    Duration::from_millis(match priority {
        Priority::Low => 1000,
        Priority::Normal => 500,
        Priority::High => 250,
        Priority::Critical => 150,
        Priority::Urgent => 100,
    })
}
/// A slot outlives the call that it is for by this, so that it is never free while in use.
const MARGIN: Duration = Duration::from_secs(15);

/// How long a slot stays with a worker that fell silent: no longer than its page does.
fn lease_time(app: &App, call: Duration) -> Duration {
    app.settings.page_visibility.min(call + MARGIN)
}

/// The semaphores of this process.
pub struct Gates {
    cap: usize,
    by_target: Mutex<HashMap<Target, Arc<Semaphore>>>,
}

impl Gates {
    pub fn new(cap: usize) -> Self {
        Self { cap, by_target: Mutex::default() }
    }

    async fn of(&self, target: &Target) -> Arc<Semaphore> {
        let mut gates = self.by_target.lock().await;
        gates.entry(target.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.cap))).clone()
    }
}

/// The right to have one call in flight.
pub struct Slot {
    key: Key,
    version: u64,
    /// When it lapses unless it is renewed.
    until: Timestamp,
    _permit: OwnedSemaphorePermit,
}

/// Waits for a slot, until `deadline` or `stop` at most; `None` when none came free. It is for a
/// call of at most `call`, to be made inside [`while_held`]. Stopped only while it waits, so that no slot is taken and lost.
pub async fn acquire(
    app: &App,
    target: &Target,
    call: Duration,
    priority: Priority,
    deadline: Timestamp,
    stop: &Stop,
) -> Result<Option<Slot>, Fault> {
    let gate = app.gates.of(target).await;
    let left = until(app.clock.now(), deadline);
    let waited = tokio::select! {
        biased;
        waited = within(app.clock.as_ref(), left, gate.acquire_owned()) => waited,
        () = stop.asked() => None,
    };
    let Some(Ok(permit)) = waited else { return Ok(None) };
    loop {
        let slots = read(app, target).await?;
        let now = app.clock.now();
        let leases: Vec<Option<Lease>> =
            slots.iter().map(|slot| slot.as_ref().map(|(lease, _)| lease.clone())).collect();
        if let Some(index) = free_slot(&leases, now, app.ids.roll(u64::MAX)) {
            let key = record::slot(target, index);
            let lease = Lease::new(app.node.clone(), now, lease_time(app, call));
            let when = slots[index].as_ref().map_or(When::Absent, |(_, version)| When::Version(*version));
            let change = Change::Put { draft: Draft::new(key.clone(), encode(&lease)?), when };
            if app.write(vec![change]).await? == Written::Applied {
                let (version, until) = (when.next_version(), lease.until);
                return Ok(Some(Slot { key, version, until, _permit: permit }));
            }
            continue;
        }
        if now >= deadline || stop.is_asked() {
            return Ok(None);
        }
        tokio::select! {
            biased;
            () = app.clock.sleep(look_again(priority).min(until(now, deadline))) => {}
            () = stop.asked() => {}
        }
    }
}

async fn read(app: &App, target: &Target) -> Result<Vec<Option<(Lease, u64)>>, Fault> {
    let cap = app.settings.max_inflight_per_model;
    let mut slots = vec![None; cap];
    let listing = app.records.list(&record::slots_partition(target), "", None, cap).await?;
    for item in &listing.items {
        let index: Option<usize> = item.draft.key.sort.parse().ok();
        if let Some(slot) = index.and_then(|index| slots.get_mut(index)) {
            *slot = Some((lease_of(item)?, item.version));
        }
    }
    Ok(slots)
}

fn lease_of(item: &Item) -> Result<Lease, Fault> {
    Ok(decode(item)?.value)
}

/// Is the slot ours for a call of at most `call` that begins now? Storage that was slow may have used
/// its lease up; then it is renewed first, and may be somebody else's by now.
pub async fn is_ours(app: &App, slot: &mut Slot, call: Duration) -> bool {
    while slot.until < after(app.clock.now(), lease_time(app, call) / 2) {
        match renew(app, slot, call).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(fault) => {
                tracing::warn!(%fault, "slot not renewed, another is looked for");
                return false;
            }
        }
    }
    true
}

/// Makes the call that a slot is for, and keeps the slot as long as it takes.
pub async fn while_held<T>(app: &App, slot: &mut Slot, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = app.clock.sleep(app.settings.page_visibility / 3) => {}
        }
        let renewed = std::pin::pin!(renew(app, slot, app.settings.page_visibility));
        let (done, renewed) = match select(work.as_mut(), renewed).await {
            // A renewal on its way is not dropped: it would change the slot's version unseen, and the
            // slot could not be given back.
            Either::Left((done, renewed)) => (Some(done), renewed.await),
            Either::Right((renewed, _)) => (None, renewed),
        };
        if let Err(fault) = renewed {
            // The call is worth more than a slot that can't be kept just now.
            tracing::warn!(%fault, "slot not renewed, the call goes on");
        }
        if let Some(done) = done {
            return done;
        }
    }
}

/// False when it is not ours any more.
async fn renew(app: &App, slot: &mut Slot, call: Duration) -> Result<bool, Fault> {
    let lease = Lease::new(app.node.clone(), app.clock.now(), lease_time(app, call));
    let draft = Draft::new(slot.key.clone(), encode(&lease)?);
    let change = Change::Put { draft, when: When::Version(slot.version) };
    let written = app.write(vec![change]).await?;
    let renewed = written == Written::Applied;
    if renewed {
        (slot.version, slot.until) = (slot.version + 1, lease.until);
    }
    Ok(renewed)
}

/// Gives a slot back. One that can't be given back lapses by itself, so a fault here is no reason
/// to fail a page.
pub async fn release(app: &App, slot: Slot) {
    if let Err(fault) = free(app, slot.key, slot.version).await {
        tracing::warn!(%fault, "slot not given back, it lapses by itself");
    }
}

/// Marked as free, not deleted: a record that is made anew begins at version 1 again, and a release
/// whose reply was lost, sent once more, would then free the next holder's slot.
async fn free(app: &App, key: Key, version: u64) -> Result<(), Fault> {
    let draft = Draft::new(key, encode(&Lease::over())?);
    let change = Change::Put { draft, when: When::Version(version) };
    app.write(vec![change]).await?;
    Ok(())
}

/// Calls to a model that are in flight now, whoever makes them.
pub async fn in_use(app: &App, target: &Target) -> Result<usize, Fault> {
    let (slots, now) = (read(app, target).await?, app.clock.now());
    Ok(slots.iter().flatten().filter(|(lease, _)| lease.alive(now)).count())
}

/// Frees every slot that `node` holds; for when that process is known to be dead.
pub async fn free_all_of(app: &App, target: &Target, node: &str) -> Result<(), Fault> {
    for (index, slot) in read(app, target).await?.into_iter().enumerate() {
        if let Some((lease, version)) = slot
            && lease.holder == node
        {
            free(app, record::slot(target, index), version).await?;
        }
    }
    Ok(())
}
