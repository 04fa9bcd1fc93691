//! Typed access to the records of the [`Records`] port; the keys are in [`crate::keys`].
//!
//! Stored records, events and blobs of version 0.1 are read too: a `serde(alias)` is the name that a field had
//! there.

use serde::{Serialize, de::DeserializeOwned};

use crate::ports::{
    Fault,
    records::{Index, Item, Records},
};

/// A stored value and the version that a write to it must name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versioned<T> {
    pub value: T,
    pub version: u64,
}

pub(crate) fn decode<T: DeserializeOwned>(item: &Item) -> Result<Versioned<T>, Fault> {
    let value = serde_json::from_str(&item.draft.body).map_err(|error| {
        Fault::broken("records", format!("{}/{}: {error}", item.draft.key.partition, item.draft.key.sort))
    })?;
    Ok(Versioned { value, version: item.version })
}

/// Changes of one transaction where more are to be written.
pub(crate) const WRITE_BATCH: usize = 90;

/// Items per request when a whole partition is read.
pub(crate) const BATCH_SIZE: usize = 500;

/// Reads every item of a partition whose sort key starts with `prefix`, in order.
pub(crate) async fn read_all<T: DeserializeOwned>(
    records: &dyn Records,
    partition: &str,
    prefix: &str,
) -> Result<Vec<Versioned<T>>, Fault> {
    read_items(records, partition, prefix, None, usize::MAX).await?.iter().map(decode).collect()
}

/// Reads the first `limit` items of a partition whose sort key starts with `prefix` and comes after `after`, in
/// order, whatever they hold.
pub(crate) async fn read_items(
    records: &dyn Records,
    partition: &str,
    prefix: &str,
    mut after: Option<String>,
    limit: usize,
) -> Result<Vec<Item>, Fault> {
    let mut all = Vec::new();
    loop {
        let count = BATCH_SIZE.min(limit - all.len());
        let listing = records.list(partition, prefix, after.as_deref(), count).await?;
        all.extend(listing.items);
        match listing.next {
            Some(next) if all.len() < limit => after = Some(next),
            _ => return Ok(all),
        }
    }
}

/// Reads the first `limit` items after `after` in an index partition for which `wanted` returns true.
pub(crate) async fn read_index<T: DeserializeOwned>(
    records: &dyn Records,
    index: Index,
    partition: &str,
    mut after: Option<String>,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
) -> Result<Vec<Versioned<T>>, Fault> {
    let mut all: Vec<Versioned<T>> = Vec::new();
    loop {
        let listing = records.list_index(index, partition, after.as_deref(), false, BATCH_SIZE).await?;
        for item in &listing.items {
            let record: Versioned<T> = decode(item)?;
            if wanted(&record.value) {
                all.push(record);
            }
            if all.len() == limit {
                return Ok(all);
            }
        }
        match listing.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::broken("records", error))
}

/// Items per request after the first one did not fill the page.
const LIST_BATCH: usize = 100;

/// Items examined for one page of a list, however few of them match: rare items are found over
/// several short requests instead of one long one.
const MAX_EXAMINED: usize = 1000;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Reads one page of the items in an index partition for which `wanted` returns true. A page may be
/// short, or empty, although `next` is set: see [`MAX_EXAMINED`].
pub(crate) async fn list_page<T: DeserializeOwned>(
    records: &dyn Records,
    index: Index,
    partition: &str,
    mut after: Option<String>,
    descending: bool,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
) -> Result<ListPage<T>, Fault> {
    let position = |item: &Item| {
        let entry = match index {
            Index::Tenant => &item.draft.tenant_index,
            Index::State => &item.draft.state_index,
        };
        entry.as_ref().map(|entry| entry.sort.clone())
    };
    let mut items = Vec::new();
    let mut examined = 0;
    // One more than `limit`, to know whether there is a next page.
    let mut count = limit + 1;
    loop {
        let listing = records.list_index(index, partition, after.as_deref(), descending, count).await?;
        count = count.max(LIST_BATCH);
        for item in &listing.items {
            let value = decode::<T>(item)?.value;
            if wanted(&value) {
                if items.len() == limit {
                    return Ok(ListPage { items, next: after });
                }
                items.push(value);
            }
            after = position(item);
            examined += 1;
        }
        match listing.next {
            Some(next) if examined >= MAX_EXAMINED => return Ok(ListPage { items, next: Some(next) }),
            Some(next) => after = Some(next),
            None => return Ok(ListPage { items, next: None }),
        }
    }
}
