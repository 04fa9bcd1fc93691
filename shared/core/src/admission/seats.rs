//! The store of seats: the ids of the jobs that are admitted and have not ended, in groups, so that no record grows
//! with the limit.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    ids::JobId,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, Key, When, Written},
    },
    records::{Versioned, encode, read_all},
};

/// Seats in one record.
const GROUP: usize = 32;

/// The jobs of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub number: u32,
    pub jobs: BTreeSet<JobId>,
}

/// Every group, by number.
pub async fn all(store: &Store) -> Result<Vec<Versioned<Group>>, Fault> {
    read_all(store.records.as_ref(), record::SEATS, "").await
}

/// How many seats are taken.
pub fn taken(groups: &[Versioned<Group>]) -> usize {
    groups.iter().map(|group| group.value.jobs.len()).sum()
}

/// The groups after `job` took a seat, and the write of it: in the first group with room, or in a new one.
pub(super) fn seated(
    groups: &[Versioned<Group>],
    job: &JobId,
) -> Result<(Vec<Versioned<Group>>, Change), Fault> {
    let mut groups = groups.to_vec();
    let (number, found) = match groups.iter_mut().find(|group| group.value.jobs.len() < GROUP) {
        Some(group) => (group.value.number, group),
        None => {
            let used: BTreeSet<u32> = groups.iter().map(|group| group.value.number).collect();
            let number = (0..).find(|number| !used.contains(number)).unwrap_or_default();
            groups.push(Versioned { value: Group { number, jobs: BTreeSet::new() }, version: 0 });
            let last = groups.len() - 1;
            (number, &mut groups[last])
        }
    };
    let when = if found.version == 0 { When::Absent } else { When::Version(found.version) };
    found.value.jobs.insert(job.clone());
    found.version = when.next_version();
    let change = Change::Put { draft: Draft::new(key(number), encode(&found.value)?), when };
    Ok((groups, change))
}

fn key(number: u32) -> Key {
    record::seats(number)
}

/// Frees the seats of `jobs`; returns how many of them had one. Freeing them again changes nothing.
pub async fn free(store: &Store, jobs: &BTreeSet<JobId>) -> Result<usize, Fault> {
    let mut freed = 0;
    'read: loop {
        for group in all(store).await? {
            let mut left = group.value.clone();
            left.jobs.retain(|job| !jobs.contains(job));
            let gone = group.value.jobs.len() - left.jobs.len();
            if gone == 0 {
                continue;
            }
            // An empty group stays: made again, it would have a version that another process may have read before.
            let draft = Draft::new(key(left.number), encode(&left)?);
            let change = Change::Put { draft, when: When::Version(group.version) };
            if store.write(vec![change]).await? != Written::Applied {
                // Another job took or left a seat of this group.
                continue 'read;
            }
            freed += gone;
        }
        return Ok(freed);
    }
}
