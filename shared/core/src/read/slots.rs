//! The store of in-flight slots: the limit of concurrent calls to one model, across all workers.
//!
//! A process takes slots in blocks, under a lease, and hands them to its pages. A slot that a page
//! releases goes to the next page of the process that waits, without a write. Slots that are not needed
//! are given back in blocks; those of a process that died expire with its lease.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::{Either, select};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::paces::Paces;
use crate::{
    events::Store,
    ids::Priority,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
    },
    providers::target::Target,
    read::slot::{SlotGroup, groups},
    records::{Versioned, decode, encode},
    settings::Settings,
    time::{after, until},
};

/// The poll interval of a page while other processes have all slots: the more urgent the page, the
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

/// Groups that are tried for a free slot before the page waits.
const MAX_GROUPS_TRIED: usize = 3;
/// A group in which other processes have all slots is read at most this often, by all waiting pages together.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Conditional writes of a group that other processes may win.
const MAX_TRIES: u32 = 10;

/// The in-flight slots as one process sees them.
#[derive(Clone)]
pub struct Slots {
    pub store: Store,
    pub settings: Arc<Settings>,
    pub paces: Paces,
    pools: Arc<Mutex<HashMap<Target, Arc<Pool>>>>,
}

/// The slots of one model that this process has.
#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
    /// One task at a time changes the stored groups.
    writing: tokio::sync::Mutex<()>,
    released: Notify,
}

#[derive(Default)]
struct PoolState {
    blocks: HashMap<u32, Block>,
    in_use: u32,
    waiting: u32,
    /// Pages that wait for a slot to become free, by their priority.
    queued: BTreeMap<Priority, u32>,
}

/// The slots of this process in one group.
#[derive(Clone, Default)]
struct Block {
    slots: u32,
    until: Option<Timestamp>,
    /// The group as this process saw it last.
    group: Versioned<SlotGroup>,
    read_at: Option<Timestamp>,
}

impl PoolState {
    /// Slots that this process has and whose lease is valid at `time`.
    fn valid(&self, time: Timestamp) -> u32 {
        let is_valid = |block: &&Block| block.until.is_some_and(|until| time < until);
        self.blocks.values().filter(is_valid).map(|block| block.slots).sum()
    }

    /// Those of them that it may use under the limit.
    fn usable(&self, node: &str, limit: u32, time: Timestamp) -> u32 {
        let is_valid = |(_, block): &(&u32, &Block)| block.until.is_some_and(|until| time < until);
        let usable =
            |(group, block): (&u32, &Block)| block.group.value.usable(node, block.slots, *group, limit, time);
        self.blocks.iter().filter(is_valid).map(usable).sum()
    }
}

/// The right to have one call in flight. [`Slots::release`] gives it to the next page; a slot that is
/// dropped with its task is free in this process as well.
pub struct Slot {
    target: Target,
    pool: Arc<Pool>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.state.lock().in_use -= 1;
        self.pool.released.notify_one();
    }
}

/// A page that waits for a slot, counted for as long as it does.
struct Waiter<'a>(&'a Pool);

impl<'a> Waiter<'a> {
    fn new(pool: &'a Pool) -> Self {
        pool.state.lock().waiting += 1;
        Self(pool)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

/// A page in the queue for a slot.
struct Queued<'a>(&'a Pool, Priority);

impl<'a> Queued<'a> {
    fn new(pool: &'a Pool, priority: Priority) -> Self {
        *pool.state.lock().queued.entry(priority).or_default() += 1;
        Self(pool, priority)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if let Some(queued) = self.0.state.lock().queued.get_mut(&self.1) {
            *queued -= 1;
        }
    }
}

impl Slots {
    pub fn new(store: Store, settings: Arc<Settings>, paces: Paces) -> Self {
        Self { store, settings, paces, pools: Arc::default() }
    }

    fn pool(&self, target: &Target) -> Arc<Pool> {
        self.pools.lock().entry(target.clone()).or_default().clone()
    }

    /// How long slots stay with a process that died: no longer than its pages do.
    fn lease_time(&self) -> Duration {
        self.settings.page_visibility
    }

    /// Takes a slot if one is free, for a call that the provider's headers leave room for.
    pub async fn try_take(&self, target: &Target) -> Result<Option<Slot>, Fault> {
        let pool = self.pool(target);
        let taken = {
            // Counted, so that the page that takes more slots takes one for each page that wants one.
            let _waiter = Waiter::new(&pool);
            self.take_once(&pool, target).await?
        };
        if taken.is_none() {
            self.give_back_surplus(&pool, target).await;
        }
        Ok(taken)
    }

    async fn take_once(&self, pool: &Arc<Pool>, target: &Target) -> Result<Option<Slot>, Fault> {
        if self.quota_wait(pool, target).is_some() {
            return Ok(None);
        }
        let limit = self.paces.limit(target).await;
        if let Some(slot) = self.take_own(pool, target, limit) {
            return Ok(Some(slot));
        }
        let _writing = pool.writing.lock().await;
        // Another task may have taken a block meanwhile.
        if let Some(slot) = self.take_own(pool, target, limit) {
            return Ok(Some(slot));
        }
        // Calls that are shorter than the lease renew none: that is done here.
        self.renew_expiring(pool, target, self.lease_time() / 3).await?;
        if let Some(slot) = self.take_own(pool, target, limit) {
            return Ok(Some(slot));
        }
        if pool.state.lock().in_use < limit && self.grow(pool, target, limit).await? {
            let slot = self.take_own(pool, target, limit);
            pool.released.notify_waiters();
            return Ok(slot);
        }
        self.paces.note_full(target);
        Ok(None)
    }

    /// How long until the limits that the provider announces have room for one more call of this process,
    /// which has its part of them: as large as its part of the calls in flight.
    fn quota_wait(&self, pool: &Pool, target: &Target) -> Option<Duration> {
        let (own, all) = self.share(pool, target);
        self.paces.quota_wait(target, own, all)
    }

    /// How long until the provider's headers leave room for one more call of this process; `None` when they do now.
    pub fn header_wait(&self, target: &Target) -> Option<Duration> {
        self.quota_wait(&self.pool(target), target)
    }

    /// Pages of this process that wait for a slot of the model with this priority or before it.
    pub fn waiting(&self, target: &Target, priority: Priority) -> u32 {
        self.pool(target).state.lock().queued.range(priority..).map(|(_, pages)| *pages).sum()
    }

    /// Whether a call to the model could start now, as far as this process knows.
    pub async fn has_room(&self, target: &Target) -> bool {
        self.quota_wait(&self.pool(target), target).is_none()
            && self.in_flight_estimate(target) < self.paces.limit(target).await
    }

    /// Calls in flight of this process and of all.
    fn share(&self, pool: &Pool, target: &Target) -> (u32, u32) {
        let all = self.in_flight_estimate(target);
        let own = pool.state.lock().in_use.max(1);
        (own, all.max(own))
    }

    /// Calls per second that the model's rate limit lets through; `None` where no limit is known.
    pub fn calls_per_second(&self, target: &Target) -> Option<f64> {
        let (own, all) = self.share(&self.pool(target), target);
        self.paces.calls_per_second(target, own, all)
    }

    /// Takes one of the slots that this process has.
    fn take_own(&self, pool: &Arc<Pool>, target: &Target, limit: u32) -> Option<Slot> {
        let mut state = pool.state.lock();
        // A lease that is about to expire is renewed first: a call must not outlive its slot.
        let soon = after(self.store.clock.now(), self.lease_time() / 4);
        if state.in_use >= state.usable(&self.store.node, limit, soon) {
            return None;
        }
        state.in_use += 1;
        Some(Slot { target: target.clone(), pool: pool.clone() })
    }

    /// Waits for a slot until `deadline` or `stop`.
    pub async fn take(
        &self,
        target: &Target,
        priority: Priority,
        deadline: Timestamp,
        stop: &CancellationToken,
    ) -> Result<Option<Slot>, Fault> {
        let taken = self.wait_for_slot(target, priority, deadline, stop).await?;
        if taken.is_none() {
            // It may have been the page that the unused slots of this process were for.
            self.give_back_surplus(&self.pool(target), target).await;
        }
        Ok(taken)
    }

    async fn wait_for_slot(
        &self,
        target: &Target,
        priority: Priority,
        deadline: Timestamp,
        stop: &CancellationToken,
    ) -> Result<Option<Slot>, Fault> {
        let pool = self.pool(target);
        let (_waiter, _queued) = (Waiter::new(&pool), Queued::new(&pool, priority));
        loop {
            let released = pool.released.notified();
            if let Some(slot) = self.take_once(&pool, target).await? {
                return Ok(Some(slot));
            }
            let accepted_in = self.paces.grow_accepted(target).await;
            let now = self.store.clock.now();
            if now >= deadline || stop.is_cancelled() {
                return Ok(None);
            }
            let quota_in = self.quota_wait(&pool, target).unwrap_or(Duration::MAX);
            let pause = poll_interval(priority).min(accepted_in.unwrap_or(Duration::MAX)).min(quota_in);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = released => {}
                () = self.store.clock.sleep(pause.min(until(now, deadline))) => {}
            }
        }
    }

    /// Takes more slots from the stored groups, as many as pages of this process wait for; false when
    /// other processes have all of them.
    async fn grow(&self, pool: &Pool, target: &Target, limit: u32) -> Result<bool, Fault> {
        let now = self.store.clock.now();
        let (wanted, own) = {
            let state = pool.state.lock();
            let own: Vec<u32> = state.blocks.keys().copied().filter(|group| *group < groups(limit)).collect();
            ((state.in_use + state.waiting.max(1)).min(limit), own)
        };
        // Its own groups first, then others from a random one on, so that processes spread.
        let start = self.store.ids.random_below(u64::from(groups(limit))) as u32;
        let others = (0..groups(limit)).map(|step| (start + step) % groups(limit));
        let others = others.filter(|group| !own.contains(group)).take(MAX_GROUPS_TRIED);
        for group in own.iter().copied().chain(others).collect::<Vec<_>>() {
            let before = pool.state.lock().valid(now);
            let missing = wanted.saturating_sub(before);
            let more = |block: &Block| {
                let wanted = block.slots + missing;
                let slots = block.group.value.available(&self.store.node, wanted, group, limit, now);
                (slots > block.slots).then_some(slots)
            };
            self.refresh(pool, target, group, &more).await?;
            self.write(pool, target, group, more).await?;
            let state = pool.state.lock();
            if state.usable(&self.store.node, limit, now) > state.in_use {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a group again if, by what is known of it, there is nothing to take.
    async fn refresh(
        &self,
        pool: &Pool,
        target: &Target,
        group: u32,
        more: &impl Fn(&Block) -> Option<u32>,
    ) -> Result<(), Fault> {
        let now = self.store.clock.now();
        let is_recent = |block: &Block| block.read_at.is_some_and(|at| now < after(at, READ_INTERVAL));
        let is_known = {
            let state = pool.state.lock();
            state.blocks.get(&group).is_none_or(|block| more(block).is_some() || is_recent(block))
        };
        if !is_known {
            let item = self.store.records.get(&record::slots(target, group)).await?;
            let stored = item.as_ref().map(decode).transpose()?.unwrap_or_default();
            let mut state = pool.state.lock();
            let block = state.blocks.entry(group).or_default();
            (block.group, block.read_at) = (stored, Some(now));
        }
        Ok(())
    }

    /// Writes how many slots of a group this process has, and renews its lease; `None` leaves it as it is.
    async fn write(
        &self,
        pool: &Pool,
        target: &Target,
        group: u32,
        slots: impl Fn(&Block) -> Option<u32>,
    ) -> Result<(), Fault> {
        let mut block = pool.state.lock().blocks.get(&group).cloned().unwrap_or_default();
        for _ in 0..MAX_TRIES {
            let now = self.store.clock.now();
            // Another process may have taken what expired.
            if block.until.is_some_and(|until| now >= until) {
                block.slots = 0;
            }
            let Some(count) = slots(&block) else { break };
            let next = block.group.value.with(&self.store.node, count, now, self.lease_time());
            let version = block.group.version;
            let when = if version == 0 { When::Absent } else { When::Version(version) };
            let draft = Draft::new(record::slots(target, group), encode(&next)?);
            match self.store.write(vec![Change::Put { draft, when }]).await? {
                Written::Applied => {
                    let until = Some(after(now, self.lease_time()));
                    let group = Versioned { value: next, version: when.next_version() };
                    block = Block { slots: count, until, group, read_at: Some(now) };
                    break;
                }
                Written::Refused { existing: Some(item), .. } => block.group = decode(&item)?,
                Written::Refused { existing: None, .. } => block.group = Versioned::default(),
            }
        }
        pool.state.lock().blocks.insert(group, block);
        Ok(())
    }

    /// Runs the call that a slot is for, and renews the leases of this process's slots meanwhile.
    pub async fn while_held<T>(&self, slot: &Slot, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.store.clock.sleep(self.lease_time() / 3) => {}
            }
            let renewed = std::pin::pin!(self.renew(&slot.target));
            let (done, renewed) = match select(work.as_mut(), renewed).await {
                // A write in flight is not dropped: it would change a group's version unseen.
                Either::Left((done, renewed)) => (Some(done), renewed.await),
                Either::Right((renewed, _)) => (None, renewed),
            };
            if let Err(fault) = renewed {
                // The call is worth more than a slot that can't be renewed just now.
                tracing::warn!(%fault, "slots not renewed, the call continues");
            }
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Renews the leases that expire next; the first of the calls in flight does it for all.
    async fn renew(&self, target: &Target) -> Result<(), Fault> {
        let pool = self.pool(target);
        let _writing = pool.writing.lock().await;
        self.renew_expiring(&pool, target, self.lease_time() * 2 / 3).await
    }

    /// Renews the leases that expire within `time`.
    async fn renew_expiring(&self, pool: &Pool, target: &Target, time: Duration) -> Result<(), Fault> {
        let now = self.store.clock.now();
        let is_due = |block: &Block| {
            block.slots > 0 && block.until.is_some_and(|until| now < until && until <= after(now, time))
        };
        let expiring: Vec<u32> = {
            let state = pool.state.lock();
            state.blocks.iter().filter(|(_, block)| is_due(block)).map(|(group, _)| *group).collect()
        };
        for group in expiring {
            self.write(pool, target, group, |block| Some(block.slots)).await?;
        }
        Ok(())
    }

    /// Releases a slot: to a page of this process that waits, else to the others. If giving back fails, the
    /// slots expire by themselves, so a fault here does not fail the page.
    pub async fn release(&self, slot: Slot) {
        let (target, pool) = (slot.target.clone(), slot.pool.clone());
        drop(slot);
        self.give_back_surplus(&pool, &target).await;
    }

    /// Gives slots back that no page of this process needs.
    async fn give_back_surplus(&self, pool: &Pool, target: &Target) {
        let (limit, node) = (self.paces.limit(target).await, &self.store.node);
        let now = self.store.clock.now();
        let is_surplus = |state: &PoolState| {
            let has = state.valid(now);
            let unused = has.saturating_sub(state.in_use);
            // Half of them, so that ten pages that end one after the other cost four writes and not ten.
            let is_idle = state.waiting == 0 && unused > 0 && unused >= state.in_use;
            is_idle || has > state.usable(node, limit, now).max(state.in_use)
        };
        if !is_surplus(&pool.state.lock()) {
            return;
        }
        let _writing = pool.writing.lock().await;
        if !is_surplus(&pool.state.lock()) {
            return;
        }
        if let Err(fault) = self.give_back(pool, target, limit).await {
            tracing::warn!(%fault, "slots not given back, they expire by themselves");
        }
    }

    /// Gives back what this process does not use, the highest groups first.
    async fn give_back(&self, pool: &Pool, target: &Target, limit: u32) -> Result<(), Fault> {
        let now = self.store.clock.now();
        let mut blocks: Vec<(u32, u32)> = {
            let state = pool.state.lock();
            state.blocks.iter().map(|(group, block)| (*group, block.slots)).collect()
        };
        blocks.sort_unstable_by(|one, other| other.cmp(one));
        for (group, slots) in blocks.into_iter().filter(|(_, slots)| *slots > 0) {
            let unused = {
                let mut state = pool.state.lock();
                let usable = state.usable(&self.store.node, limit, now).max(state.in_use);
                let needed = if state.waiting > 0 { usable } else { state.in_use };
                let unused = state.valid(now).saturating_sub(needed).min(slots);
                // Not usable from now on, although the write is not done yet.
                if let Some(block) = state.blocks.get_mut(&group) {
                    block.slots -= unused;
                }
                unused
            };
            if unused > 0 {
                self.write(pool, target, group, |block| Some(block.slots)).await?;
            }
        }
        Ok(())
    }

    /// Slots that processes have now, by what this process saw last; at least its own calls in flight.
    pub fn in_flight_estimate(&self, target: &Target) -> u32 {
        let pool = self.pool(target);
        let (state, now) = (pool.state.lock(), self.store.clock.now());
        let others = |block: &Block| block.group.value.in_use(now).saturating_sub(block.slots);
        state.in_use + state.blocks.values().map(others).sum::<u32>()
    }

    /// Calls to a model that may be in flight now, in all processes.
    pub async fn in_use(&self, target: &Target) -> Result<u32, Fault> {
        let (stored, now) = (self.stored(target).await?, self.store.clock.now());
        Ok(stored.iter().map(|(_, group)| group.value.in_use(now)).sum())
    }

    /// Wakes the pages that wait for a slot: the limit was raised.
    pub fn wake(&self, target: &Target) {
        self.pool(target).released.notify_waiters();
    }

    async fn stored(&self, target: &Target) -> Result<Vec<(u32, Versioned<SlotGroup>)>, Fault> {
        let groups: Vec<u32> = (0..groups(self.settings.max_inflight_per_model.max())).collect();
        let keys: Vec<Key> = groups.iter().map(|group| record::slots(target, *group)).collect();
        let items = self.store.records.get_many(&keys).await?;
        let stored = groups.into_iter().zip(items);
        stored.filter_map(|(group, item)| item.map(|item| Ok((group, decode(&item)?)))).collect()
    }

    /// Releases every slot that `node` has, after that process died.
    pub async fn free_all_of(&self, target: &Target, node: &str) -> Result<(), Fault> {
        for (group, stored) in self.stored(target).await? {
            let mut stored = stored;
            while stored.value.shares.iter().any(|share| share.lease.holder == node) {
                let next = stored.value.with(node, 0, self.store.clock.now(), Duration::ZERO);
                let draft = Draft::new(record::slots(target, group), encode(&next)?);
                let change = Change::Put { draft, when: When::Version(stored.version) };
                match self.store.write(vec![change]).await? {
                    Written::Refused { existing: Some(item), .. } => stored = decode(&item)?,
                    Written::Applied | Written::Refused { existing: None, .. } => break,
                }
            }
        }
        Ok(())
    }
}
