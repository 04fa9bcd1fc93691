//! The store of countdowns: one record per range, which each of its pages writes when it settles, and one per
//! job, which the last page of each range writes. Both are written in the batch that stores the page's outcome,
//! so that each page counts once, whatever is delivered twice or dies.

use std::collections::BTreeSet;

use crate::{
    events::Store,
    ids::{JobId, PageNumber},
    job::Job,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
    },
    read::countdown::{Countdown, Run},
    records::{Versioned, decode, encode},
};

/// Starts the countdown of a job over its ranges, each named by its first page. One that was started for the
/// same run is left as it is: some of its ranges may be over.
pub async fn start(store: &Store, job: &JobId, run: Run, ranges: BTreeSet<PageNumber>) -> Result<(), Fault> {
    put_unless_started(store, record::countdown(job), run, ranges).await.map(drop)
}

/// Whether a range was sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Started {
    First,
    /// By an earlier try, or for an earlier run: some of its pages may be settled.
    Again,
}

/// Starts the countdown of one range over its pages. As with [`start`], only once for each run.
pub(super) async fn start_range(
    store: &Store,
    job: &JobId,
    run: Run,
    range: PageNumber,
    pages: BTreeSet<PageNumber>,
) -> Result<Started, Fault> {
    put_unless_started(store, record::range_countdown(job, range), run, pages).await
}

async fn put_unless_started(
    store: &Store,
    key: Key,
    run: Run,
    left: BTreeSet<PageNumber>,
) -> Result<Started, Fault> {
    let countdown = Countdown::new(run, left);
    let mut when = When::Absent;
    loop {
        match store.write(vec![put(key.clone(), &countdown, when)?]).await? {
            Written::Applied if when == When::Absent => return Ok(Started::First),
            Written::Applied => return Ok(Started::Again),
            Written::Refused { existing: Some(item), .. } => {
                let existing: Versioned<Countdown> = decode(&item)?;
                if existing.value.run == run {
                    return Ok(Started::Again);
                }
                when = When::Version(existing.version);
            }
            Written::Refused { existing: None, .. } => when = When::Absent,
        }
    }
}

fn put(key: Key, countdown: &Countdown, when: When) -> Result<Change, Fault> {
    Ok(Change::Put { draft: Draft::new(key, encode(countdown)?), when })
}

async fn find(store: &Store, key: &Key) -> Result<Option<Versioned<Countdown>>, Fault> {
    store.records.get(key).await?.as_ref().map(decode).transpose()
}

/// How settled pages leave their countdowns.
pub(super) struct Removal {
    /// To be written with what settles the pages.
    pub changes: Vec<Change>,
    /// The last pages of the job.
    pub completes: bool,
}

/// The writes that remove settled pages of one range; `None` if its countdown has none of them.
pub(super) async fn removal(
    store: &Store,
    job: &Job,
    settled: &BTreeSet<PageNumber>,
) -> Result<Option<Removal>, Fault> {
    let range = settled.first().and_then(|page| job.survey.as_ref()?.range_of(*page));
    let Some(range) = range.map(|range| range.first) else { return Ok(None) };
    let key = record::range_countdown(&job.id, range);
    let Some(found) = find(store, &key).await? else { return Ok(None) };
    let Some(pages) = found.value.without(settled) else { return Ok(None) };
    let mut changes = vec![put(key, &pages, When::Version(found.version))?];
    if !pages.is_over() {
        return Ok(Some(Removal { changes, completes: false }));
    }
    let key = record::countdown(&job.id);
    let found = find(store, &key).await?.filter(|found| found.value.run == pages.run);
    let ranges = found.as_ref().and_then(|found| found.value.without(&BTreeSet::from([range])));
    let completes = ranges.as_ref().is_some_and(Countdown::is_over);
    if let (Some(found), Some(ranges)) = (found, ranges) {
        changes.push(put(key, &ranges, When::Version(found.version))?);
    }
    Ok(Some(Removal { changes, completes }))
}

/// Removes pages of one range that are settled; returns whether they were the last pages of the job.
pub(super) async fn remove(store: &Store, job: &Job, settled: &BTreeSet<PageNumber>) -> Result<bool, Fault> {
    loop {
        let Some(removal) = removal(store, job, settled).await? else { return Ok(false) };
        if store.write(removal.changes).await? == Written::Applied {
            return Ok(removal.completes);
        }
    }
}

/// Whether every page of the job's current run is settled; false if its pages were not sent yet.
pub async fn is_complete(store: &Store, job: &Job) -> Result<bool, Fault> {
    let found = find(store, &record::countdown(&job.id)).await?.map(|found| found.value);
    Ok(found.is_some_and(|countdown| Some(countdown.run) == Run::of(job) && countdown.is_over()))
}

/// The pages of a range that are not settled, as far as its countdown knows.
pub(super) async fn left(
    store: &Store,
    job: &JobId,
    range: PageNumber,
) -> Result<BTreeSet<PageNumber>, Fault> {
    let found = find(store, &record::range_countdown(job, range)).await?;
    Ok(found.map(|found| found.value.left).unwrap_or_default())
}
