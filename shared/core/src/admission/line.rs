//! The store of the line: who waits, in which order, how far it has come, and what is ahead of a job.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    admission::{
        Admission,
        decide::{Turn, Waiting, due_at},
    },
    events::Store,
    ids::{JobId, Priority, TenantId},
    job::Job,
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{Versioned, decode, encode, read_index},
    time::after,
};

/// Jobs that are read to say what is ahead of one, and to count them.
pub const MAX_COUNTED: usize = 1000;
/// How long one reading of them is used.
const SEEN_FOR: Duration = Duration::from_secs(3);
/// Jobs of each lower level that are looked at for one turn.
const LOWER_HEADS: usize = 8;
/// A tenant that hands in nothing for this long starts behind the line's place again, where it stands anyway.
const LAST_PLACE_KEPT: Duration = Duration::from_secs(48 * 3600);

/// How far the line has come.
pub(super) async fn turn(store: &Store) -> Result<Versioned<Turn>, Fault> {
    let item = store.records.get(&record::admission_turn()).await?;
    item.as_ref().map(decode).transpose().map(Option::unwrap_or_default)
}

pub(super) fn put_turn(before: u64, turn: &Turn) -> Result<Change, Fault> {
    let when = if before == 0 { When::Absent } else { When::Version(before) };
    Ok(Change::Put { draft: Draft::new(record::admission_turn(), encode(turn)?), when })
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LastPlace {
    place: u64,
}

/// Gives a tenant's next document of a level its place. A place that is not used then is only a gap.
pub async fn take_place(store: &Store, tenant: &TenantId, level: Priority) -> Result<u64, Fault> {
    let turn = turn(store).await?.value;
    let key = record::last_place(tenant, level);
    loop {
        let item = store.records.get(&key).await?;
        let last: Option<Versioned<LastPlace>> = item.as_ref().map(decode).transpose()?;
        let place = turn.next_place(level, last.as_ref().map(|last| last.value.place));
        let when = last.map_or(When::Absent, |last| When::Version(last.version));
        let expires = Some(after(store.clock.now(), LAST_PLACE_KEPT));
        let draft = Draft { expires, ..Draft::new(key.clone(), encode(&LastPlace { place })?) };
        if store.write(vec![Change::Put { draft, when }]).await? == Written::Applied {
            return Ok(place);
        }
    }
}

/// A job that is admitted at a certain time, whatever the room.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Due {
    job: JobId,
}

/// What is stored with a job that comes into line: when it is due, if its caller gave a deadline.
pub fn due_change(job: &Job) -> Result<Option<Change>, Fault> {
    let Some(at) = due_at(job) else { return Ok(None) };
    let state_index = Some(IndexEntry::new(index::DUE_JOBS, index::by_time(at, &job.id)));
    let body = encode(&Due { job: job.id.clone() })?;
    let draft = Draft { state_index, ..Draft::new(record::due(&job.id), body) };
    Ok(Some(Change::Put { draft, when: When::Absent }))
}

/// The write that deletes it; `None` if there is none.
pub(super) async fn not_due(store: &Store, job: &JobId) -> Result<Option<Change>, Fault> {
    let item = store.records.get(&record::due(job)).await?;
    Ok(item.map(|item| Change::Delete { key: item.draft.key, version: item.version }))
}

/// Jobs that are due at `now`, the first `limit` of them.
pub(super) async fn due(store: &Store, now: Timestamp, limit: usize) -> Result<Vec<JobId>, Fault> {
    let listing = store.records.list_index(Index::State, index::DUE_JOBS, None, false, limit).await?;
    // The time is in the sort key; text of one length is in the order of time.
    let end = format!("{now:.3}~");
    let is_due = |entry: &IndexEntry| entry.sort < end;
    let due = listing.items.iter().filter(|item| item.draft.state_index.as_ref().is_some_and(is_due));
    due.map(|item| Ok(decode::<Due>(item)?.value.job)).collect()
}

/// The jobs at the head of the line: up to `limit` of the highest levels, and some of each lower one.
pub(super) async fn heads(store: &Store, limit: usize) -> Result<Vec<Waiting>, Fault> {
    let (mut heads, more) = list(store, None, limit).await?;
    let lowest = heads.last().map(|one| one.level).filter(|_| more);
    let lower = Priority::ALL.into_iter().rev().filter(|level| lowest.is_some_and(|lowest| *level < lowest));
    for level in lower {
        let (some, _) = list(store, Some(index::level(level)), LOWER_HEADS).await?;
        heads.extend(some.into_iter().filter(|one| one.level == level));
    }
    Ok(heads)
}

async fn list(store: &Store, after: Option<String>, limit: usize) -> Result<(Vec<Waiting>, bool), Fault> {
    let listing =
        store.records.list_index(Index::State, index::WAITING_JOBS, after.as_deref(), false, limit).await?;
    let mut waiting = Vec::with_capacity(listing.items.len());
    for item in &listing.items {
        waiting.extend(Waiting::of(&decode::<Job>(item)?.value));
    }
    Ok((waiting, listing.next.is_some()))
}

/// Every job that waits, in the order of the line.
pub async fn waiting(store: &Store) -> Result<Vec<Job>, Fault> {
    let (records, all) = (store.records.as_ref(), usize::MAX);
    let jobs = read_index(records, Index::State, index::WAITING_JOBS, None, all, |_: &Job| true).await?;
    Ok(jobs.into_iter().map(|job| job.value).collect())
}

/// How many documents wait, by level; no more than [`MAX_COUNTED`] are counted.
pub async fn count(store: &Store) -> Result<BTreeMap<Priority, usize>, Fault> {
    let mut count: BTreeMap<Priority, usize> = Priority::ALL.map(|level| (level, 0)).into();
    let waiting = list(store, None, MAX_COUNTED).await?.0;
    waiting.iter().for_each(|one| *count.entry(one.level).or_default() += 1);
    Ok(count)
}

/// What is ahead of a job in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub documents: u32,
    /// It may be more: no further ones were counted.
    pub or_more: bool,
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.documents, self.or_more) {
            (0, _) => f.write_str("no document is ahead"),
            (1, false) => f.write_str("1 document is ahead"),
            (count, false) => write!(f, "{count} documents are ahead"),
            (count, true) => write!(f, "{count} or more documents are ahead"),
        }
    }
}

/// The line as a process saw it.
pub(super) struct Seen {
    until: Timestamp,
    jobs: BTreeMap<JobId, u32>,
    is_all: bool,
}

impl Admission {
    /// What is ahead of a job; `None` for a job that does not wait. A reading of the line is used for some seconds,
    /// so that thousands who ask cost no more than one.
    pub async fn ahead(&self, job: &Job) -> Result<Option<Ahead>, Fault> {
        if !job.is_waiting() {
            return Ok(None);
        }
        let now = self.store.clock.now();
        if let Some(seen) = self.seen.lock().as_ref().filter(|seen| now < seen.until)
            && let Some(ahead) = seen.ahead(&job.id)
        {
            return Ok(Some(ahead));
        }
        let (waiting, more) = list(&self.store, None, MAX_COUNTED).await?;
        let jobs = waiting.into_iter().zip(0..).map(|(one, ahead)| (one.job, ahead)).collect();
        let seen = Seen { until: after(now, SEEN_FOR), jobs, is_all: !more };
        let ahead = seen.ahead(&job.id);
        *self.seen.lock() = Some(seen);
        Ok(ahead)
    }
}

impl Seen {
    fn ahead(&self, job: &JobId) -> Option<Ahead> {
        match self.jobs.get(job) {
            Some(documents) => Some(Ahead { documents: *documents, or_more: false }),
            None if self.is_all => None,
            None => Some(Ahead { documents: self.jobs.len() as u32, or_more: true }),
        }
    }
}
