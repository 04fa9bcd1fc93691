//! In-flight slots: at most so many calls to one model, across every worker there is.
//!
//! Inside one process a semaphore queues callers fairly and wakes them at once; between processes
//! leased records do the counting. A slot that was never given back lapses with its lease.

use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use futures::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::{
    events::Store,
    ids::Priority,
    keys::record,
    lease::Lease,
    ports::{
        Fault,
        records::{Change, Draft, Item, Key, When, Written},
    },
    providers::target::Target,
    read::slot::free_slot,
    records::{decode, encode},
    settings::Settings,
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
fn lease_time(slots: &Slots, call: Duration) -> Duration {
    slots.settings.page_visibility.min(call + MARGIN)
}

/// The in-flight slots as one process sees them.
#[derive(Clone)]
pub struct Slots {
    pub store: Store,
    pub settings: Arc<Settings>,
    semaphores: Arc<Semaphores>,
}

impl Slots {
    pub fn new(store: Store, settings: Arc<Settings>) -> Self {
        let semaphores = Semaphores { limit: settings.max_inflight_per_model, by_target: Mutex::default() };
        Self { store, settings, semaphores: Arc::new(semaphores) }
    }
}

/// Queue the callers of this process fairly, so that only as many compete for records as may succeed.
struct Semaphores {
    limit: usize,
    by_target: Mutex<HashMap<Target, Arc<Semaphore>>>,
}

impl Semaphores {
    async fn of(&self, target: &Target) -> Arc<Semaphore> {
        let mut semaphores = self.by_target.lock().await;
        semaphores.entry(target.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.limit))).clone()
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
    slots: &Slots,
    target: &Target,
    call: Duration,
    priority: Priority,
    deadline: Timestamp,
    stop: &CancellationToken,
) -> Result<Option<Slot>, Fault> {
    let semaphore = slots.semaphores.of(target).await;
    let left = until(slots.store.clock.now(), deadline);
    let waited = tokio::select! {
        biased;
        waited = within(slots.store.clock.as_ref(), left, semaphore.acquire_owned()) => waited,
        () = stop.cancelled() => None,
    };
    let Some(Ok(permit)) = waited else { return Ok(None) };
    loop {
        let taken = read(slots, target).await?;
        let now = slots.store.clock.now();
        let leases: Vec<Option<Lease>> =
            taken.iter().map(|slot| slot.as_ref().map(|(lease, _)| lease.clone())).collect();
        if let Some(index) = free_slot(&leases, now, slots.store.ids.roll(u64::MAX)) {
            let key = record::slot(target, index);
            let lease = Lease::new(slots.store.node.clone(), now, lease_time(slots, call));
            let when = taken[index].as_ref().map_or(When::Absent, |(_, version)| When::Version(*version));
            let change = Change::Put { draft: Draft::new(key.clone(), encode(&lease)?), when };
            if slots.store.write(vec![change]).await? == Written::Applied {
                let (version, until) = (when.next_version(), lease.until);
                return Ok(Some(Slot { key, version, until, _permit: permit }));
            }
            continue;
        }
        if now >= deadline || stop.is_cancelled() {
            return Ok(None);
        }
        tokio::select! {
            biased;
            () = slots.store.clock.sleep(look_again(priority).min(until(now, deadline))) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn read(slots: &Slots, target: &Target) -> Result<Vec<Option<(Lease, u64)>>, Fault> {
    let limit = slots.settings.max_inflight_per_model;
    let mut taken = vec![None; limit];
    let listing = slots.store.records.list(&record::slots_partition(target), "", None, limit).await?;
    for item in &listing.items {
        let index: Option<usize> = item.draft.key.sort.parse().ok();
        if let Some(slot) = index.and_then(|index| taken.get_mut(index)) {
            *slot = Some((lease_of(item)?, item.version));
        }
    }
    Ok(taken)
}

fn lease_of(item: &Item) -> Result<Lease, Fault> {
    Ok(decode(item)?.value)
}

/// Is the slot ours for a call of at most `call` that begins now? Storage that was slow may have used
/// its lease up; then it is renewed first, and may be somebody else's by now.
pub async fn is_ours(slots: &Slots, slot: &mut Slot, call: Duration) -> bool {
    while slot.until < after(slots.store.clock.now(), lease_time(slots, call) / 2) {
        match renew(slots, slot, call).await {
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
pub async fn while_held<T>(slots: &Slots, slot: &mut Slot, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = slots.store.clock.sleep(slots.settings.page_visibility / 3) => {}
        }
        let renewed = std::pin::pin!(renew(slots, slot, slots.settings.page_visibility));
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
async fn renew(slots: &Slots, slot: &mut Slot, call: Duration) -> Result<bool, Fault> {
    let lease = Lease::new(slots.store.node.clone(), slots.store.clock.now(), lease_time(slots, call));
    let draft = Draft::new(slot.key.clone(), encode(&lease)?);
    let change = Change::Put { draft, when: When::Version(slot.version) };
    let written = slots.store.write(vec![change]).await?;
    let renewed = written == Written::Applied;
    if renewed {
        (slot.version, slot.until) = (slot.version + 1, lease.until);
    }
    Ok(renewed)
}

/// Gives a slot back. One that can't be given back lapses by itself, so a fault here is no reason
/// to fail a page.
pub async fn release(slots: &Slots, slot: Slot) {
    if let Err(fault) = free(slots, slot.key, slot.version).await {
        tracing::warn!(%fault, "slot not given back, it lapses by itself");
    }
}

/// Marked as free, not deleted: a record that is made anew begins at version 1 again, and a release
/// whose reply was lost, sent once more, would then free the next holder's slot.
async fn free(slots: &Slots, key: Key, version: u64) -> Result<(), Fault> {
    let draft = Draft::new(key, encode(&Lease::over())?);
    let change = Change::Put { draft, when: When::Version(version) };
    slots.store.write(vec![change]).await?;
    Ok(())
}

/// Calls to a model that are in flight now, whoever makes them.
pub async fn in_use(slots: &Slots, target: &Target) -> Result<usize, Fault> {
    let (taken, now) = (read(slots, target).await?, slots.store.clock.now());
    Ok(taken.iter().flatten().filter(|(lease, _)| lease.alive(now)).count())
}

/// Frees every slot that `node` holds; for when that process is known to be dead.
pub async fn free_all_of(slots: &Slots, target: &Target, node: &str) -> Result<(), Fault> {
    for (index, slot) in read(slots, target).await?.into_iter().enumerate() {
        if let Some((lease, version)) = slot
            && lease.holder == node
        {
            free(slots, record::slot(target, index), version).await?;
        }
    }
    Ok(())
}
