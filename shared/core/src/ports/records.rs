//! Small durable records with conditional writes: a DynamoDB table on AWS, SQLite on one machine.
//!
//! Everything that must be decided once (claims, breakers, slots, job states, events) is a record
//! that is read, decided on by a pure function and written back on the condition that it has not
//! changed. The version that a writer holds is its fencing token: a write in between makes every
//! write with an older version fail.

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
    /// A tenant's records, by time.
    Tenant,
    /// Records that need further work, by time: open jobs, unpublished events.
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

/// The content of an item, to be stored under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub key: Key,
    /// JSON, at most 350 KB.
    pub body: String,
    pub tenant_index: Option<IndexEntry>,
    pub state_index: Option<IndexEntry>,
    /// The store may delete the item after this time; until it does, readers still see the item.
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
    /// The batch that wrote it, so that a writer that lost the response recognizes its own write.
    pub stamp: String,
}

/// The condition of a write.
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

    /// The version of the item after a write under this condition.
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

/// Changes that are applied together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Unique for each decision; unchanged when the same batch is retried.
    pub stamp: String,
    /// At most 100, each with a different key.
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
    /// Cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

#[async_trait]
pub trait Records: Send + Sync {
    /// Reads one item, strongly consistent: it sees every write that was acknowledged before.
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault>;

    /// Reads items in the order of `keys`, each as strongly consistent as [`Records::get`].
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault>;

    /// Lists the items of a partition whose sort key starts with `prefix`, ascending, strongly
    /// consistent.
    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault>;

    /// Lists the items of an index partition by the sort key of their entry, ascending or
    /// `descending`. The index may lag behind writes by seconds.
    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault>;

    /// Applies a batch atomically; it is durable once `Applied` is returned. Of any number of
    /// concurrent batches with the same condition on one key, exactly one is applied.
    async fn write(&self, batch: &Batch) -> Result<Written, Fault>;
}
