//! The store of in-flight slots: the limit of concurrent calls to one model, across all workers.
//!
//! Inside one process a semaphore queues callers fairly and wakes them immediately; between processes
//! leased records do the counting. A slot that is never released expires with its lease.

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

/// The poll interval of a page while other processes hold all slots: the more urgent the page, the
/// likelier it is the first to see a free one.
fn poll_interval(priority: Priority) -> Duration {
    Duration::from_millis(match priority {
        Priority::Low => 1000,
        Priority::Normal => 500,
        Priority::High => 250,
        Priority::Critical => 150,
        Priority::Urgent => 100,
    })
}
/// A slot's lease outlives its call by this, so that it is never free while in use.
const MARGIN: Duration = Duration::from_secs(15);

/// How long a slot stays with a worker that died: no longer than its page does.
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
    /// When its lease expires unless it is renewed.
    until: Timestamp,
    _permit: OwnedSemaphorePermit,
}

/// Waits for a slot for a call of at most `call`, to be made inside [`while_held`]; `None` when none was
/// free before `deadline` or `stop`. Cancelled only while it waits, so that no slot is taken and lost.
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
        if let Some(index) = free_slot(&leases, now, slots.store.ids.random_below(u64::MAX)) {
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
            () = slots.store.clock.sleep(poll_interval(priority).min(until(now, deadline))) => {}
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

/// Whether the slot is still ours for a call of at most `call` that starts now. Slow storage may have used
/// its lease up; then it is renewed first, which fails if another worker has taken it.
pub async fn is_ours(slots: &Slots, slot: &mut Slot, call: Duration) -> bool {
    while slot.until < after(slots.store.clock.now(), lease_time(slots, call) / 2) {
        match renew(slots, slot, call).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(fault) => {
                tracing::warn!(%fault, "slot not renewed, taking another");
                return false;
            }
        }
    }
    true
}

/// Runs the call that a slot is for, and renews the slot meanwhile.
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
            // A renewal in flight is not dropped: it would change the slot's version unseen, and the slot
            // could not be released.
            Either::Left((done, renewed)) => (Some(done), renewed.await),
            Either::Right((renewed, _)) => (None, renewed),
        };
        if let Err(fault) = renewed {
            // The call is worth more than a slot that can't be renewed just now.
            tracing::warn!(%fault, "slot not renewed, the call continues");
        }
        if let Some(done) = done {
            return done;
        }
    }
}

/// Returns false when another worker has the slot.
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

/// Releases a slot. If that fails the slot expires by itself, so a fault here does not fail the page.
pub async fn release(slots: &Slots, slot: Slot) {
    if let Err(fault) = free(slots, slot.key, slot.version).await {
        tracing::warn!(%fault, "slot not released, it expires by itself");
    }
}

/// Marks the slot as free instead of deleting it: a record that is created again starts at version 1, and
/// a retried release whose reply was lost would then free the next holder's slot.
async fn free(slots: &Slots, key: Key, version: u64) -> Result<(), Fault> {
    let draft = Draft::new(key, encode(&Lease::expired())?);
    let change = Change::Put { draft, when: When::Version(version) };
    slots.store.write(vec![change]).await?;
    Ok(())
}

/// Calls to a model that are in flight now, in all processes.
pub async fn in_use(slots: &Slots, target: &Target) -> Result<usize, Fault> {
    let (taken, now) = (read(slots, target).await?, slots.store.clock.now());
    Ok(taken.iter().flatten().filter(|(lease, _)| lease.is_valid(now)).count())
}

/// Releases every slot that `node` holds, after that process died.
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
