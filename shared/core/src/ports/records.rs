//! Small durable records with conditional writes: a DynamoDB table on AWS, SQLite on one machine.
//!
//! Everything that must be decided once (claims, breakers, slots, job states, events) is a record
//! that is read, decided on by a pure function and written back on the condition that it has not
//! changed. The version that a writer holds is its fencing token: whoever writes in between makes
//! every older holder's write fail.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::ports::Fault;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub partition: String,
    pub sort: String,
}

impl Key {
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: sort.into() }
    }
}

/// The two sparse indexes: an item is listed in one when it has an entry for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// What a tenant has, by time.
    Tenant,
    /// What is waiting for somebody, by time: open jobs, unpublished events.
    State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub partition: String,
    pub sort: String,
}

impl IndexEntry {
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: sort.into() }
    }
}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub key: Key,
    /// JSON, at most 350 KB.
    pub body: String,
    pub tenant_index: Option<IndexEntry>,
    pub state_index: Option<IndexEntry>,
    /// After this the store may drop the item; until it does, readers still see it.
    pub expires: Option<Timestamp>,
}

impl Draft {
    pub fn new(key: Key, body: String) -> Self {
        Self { key, body, tenant_index: None, state_index: None, expires: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub draft: Draft,
    /// 1 when first written, one more with every write.
    pub version: u64,
    /// Names the batch that wrote it, so that a writer whose reply was lost knows its own work.
    pub stamp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Absent,
    Version(u64),
}

impl When {
    pub fn holds(self, existing: Option<u64>) -> bool {
        match self {
            Self::Absent => existing.is_none(),
            Self::Version(version) => existing == Some(version),
        }
    }

    /// The version that a write under this condition makes.
    pub fn next_version(self) -> u64 {
        match self {
            Self::Absent => 1,
            Self::Version(version) => version + 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { draft: Draft, when: When },
    Delete { key: Key, version: u64 },
}

impl Change {
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { draft, .. } => &draft.key,
            Self::Delete { key, .. } => key,
        }
    }

    pub fn when(&self) -> When {
        match self {
            Self::Put { when, .. } => *when,
            Self::Delete { version, .. } => When::Version(*version),
        }
    }
}

/// Changes that happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Unique for each attempt to decide something; kept when the same batch is sent again.
    pub stamp: String,
    /// At most 100, each of another key.
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Applied,
    /// The condition of `changes[index]` did not hold; nothing was written.
    Refused {
        index: usize,
        existing: Option<Box<Item>>,
    },
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub items: Vec<Item>,
    /// Where to go on; `None` at the end.
    pub next: Option<String>,
}

#[async_trait]
pub trait Records: Send + Sync {
    /// Strongly consistent: sees every write that was acknowledged before.
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault>;

    /// Answers in the order of `keys`; each as strongly consistent as [`Records::get`].
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault>;

    /// Items of one partition whose sort key starts with `prefix`, ascending, strongly consistent.
    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault>;

    /// Items listed under `partition` of an index, ascending by the entry's sort key; may lag
    /// behind writes by seconds. `descending` starts from the end.
    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault>;

    /// Atomic and durable once `Applied` is answered. Of any number of simultaneous batches with
    /// conditions on one key, exactly one is applied.
    async fn write(&self, batch: &Batch) -> Result<Written, Fault>;
}
