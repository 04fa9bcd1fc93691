//! The store of pending publications. However many pages are read late, one worker publishes for all,
//! repeatedly until no more were registered meanwhile.
//!
//! While a worker publishes, the job is listed by when its lease expires: if it dies, another process finds
//! the job there and continues.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    ids::JobId,
    keys::{index, record},
    lease::Lease,
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{Versioned, decode, encode, read_index},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Healing {
    job: JobId,
    /// How many late pages were registered.
    #[serde(alias = "told")]
    registered: u64,
    /// The lease of the publishing worker; none when everything is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publisher: Option<Lease>,
}

impl Healing {
    fn is_in_progress(&self, now: Timestamp) -> bool {
        self.publisher.as_ref().is_some_and(|lease| lease.is_valid(now))
    }
}

/// The right to publish, with the count of registered pages when it was granted.
pub struct Turn(Versioned<Healing>);

async fn find(store: &Store, job: &JobId) -> Result<Versioned<Healing>, Fault> {
    let found = store.records.get(&record::healing(job)).await?.as_ref().map(decode).transpose()?;
    let none =
        || Versioned { value: Healing { job: job.clone(), registered: 0, publisher: None }, version: 0 };
    Ok(found.unwrap_or_else(none))
}

async fn save(store: &Store, before: &Versioned<Healing>, value: Healing) -> Result<Option<Turn>, Fault> {
    let when = if before.version == 0 { When::Absent } else { When::Version(before.version) };
    let place = |lease: &Lease| IndexEntry::new(index::HEALING, index::by_time(lease.until, &value.job));
    let draft = Draft {
        state_index: value.publisher.as_ref().map(place),
        ..Draft::new(record::healing(&value.job), encode(&value)?)
    };
    let written = store.write(vec![Change::Put { draft, when }]).await?;
    Ok((written == Written::Applied).then_some(Turn(Versioned { value, version: when.next_version() })))
}

/// Registers a late page. Returns the caller's turn to publish, for `time`; `None` when another worker
/// publishes, which then includes this page.
pub async fn register(
    store: &Store,
    job: &JobId,
    holder: &str,
    time: Duration,
) -> Result<Option<Turn>, Fault> {
    loop {
        let kept = find(store, job).await?;
        let now = store.clock.now();
        let theirs = kept.value.is_in_progress(now);
        let publisher = match theirs {
            true => kept.value.publisher.clone(),
            false => Some(Lease::new(holder, now, time)),
        };
        let next = Healing { registered: kept.value.registered + 1, publisher, ..kept.value.clone() };
        if let Some(turn) = save(store, &kept, next).await? {
            return Ok((!theirs).then_some(turn));
        }
    }
}

/// Ends a turn after its publication; returns a new turn when more pages were registered meanwhile. A turn
/// that expired and was taken over is over.
pub async fn finish(store: &Store, turn: Turn, time: Duration) -> Result<Option<Turn>, Fault> {
    let Turn(mut held) = turn;
    let Some(holder) = held.value.publisher.as_ref().map(|lease| lease.holder.clone()) else {
        return Ok(None);
    };
    let registered = held.value.registered;
    loop {
        let done = held.value.registered == registered;
        let publisher = (!done).then(|| Lease::new(&holder, store.clock.now(), time));
        let next = Healing { publisher, ..held.value.clone() };
        if let Some(turn) = save(store, &held, next).await? {
            return Ok((!done).then_some(turn));
        }
        held = find(store, &held.value.job).await?;
        if held.value.publisher.as_ref().is_none_or(|lease| lease.holder != holder) {
            return Ok(None);
        }
    }
}

/// Jobs whose publisher has not finished in its time.
pub async fn abandoned(store: &Store, limit: usize) -> Result<Vec<JobId>, Fault> {
    let now = store.clock.now();
    let late = |healing: &Healing| !healing.is_in_progress(now);
    let found = read_index(store.records.as_ref(), Index::State, index::HEALING, None, limit, late).await?;
    Ok(found.into_iter().map(|kept| kept.value.job).collect())
}

/// Deletes the record of a job that can't be healed any more.
pub async fn delete(store: &Store, job: &JobId) -> Result<(), Fault> {
    while let Some(item) = store.records.get(&record::healing(job)).await? {
        if store.write(vec![Change::Delete { key: record::healing(job), version: item.version }]).await?
            == Written::Applied
        {
            break;
        }
    }
    Ok(())
}

/// Expires the turn of `node`, after that process died.
pub async fn free_all_of(store: &Store, job: &JobId, node: &str) -> Result<(), Fault> {
    let prefix = format!("{node}/");
    loop {
        let kept = find(store, job).await?;
        if !kept.value.publisher.as_ref().is_some_and(|lease| lease.holder.starts_with(&prefix)) {
            return Ok(());
        }
        let next = Healing { publisher: Some(Lease::expired()), ..kept.value.clone() };
        if save(store, &kept, next).await?.is_some() {
            return Ok(());
        }
    }
}
