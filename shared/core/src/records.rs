//! Typed records over the one `Records` port, and where each lives.
//!
//! | partition | sort | what |
//! | --- | --- | --- |
//! | `job#J` | `job` | the job |
//! | `job#J` | `event#0000000001` | its trail |
//! | `job#J` | `page#0000000017` | lease and outcome of a page |
//! | `job#J` | `pagelog#0000000017#0000000001` | a page's trail |
//! | `job#J` | `healing` | who publishes what was read late |
//! | `job#J` | `secret` | a sealed password, until intake is over |
//! | `tenant#T` | `overrides` | a tenant's own values of some settings |
//! | `tenant#T` | `apikey#ID` | which record is the key of that id |
//! | `tenant#T` | `webhook` | where a tenant is told of ends, with its sealed secret |
//! | `account#T` | `account` | a tenant's credits |
//! | `account#T` | `event#…` / `ledger#…` | their trail, and each change of the balance |
//! | `purchase#ID` | `purchase` / `event#…` | a purchase of credits and its trail |
//! | `purchase#ID` | `method` | how it is paid, sealed, until it is |
//! | `webhook#ID` | `webhook` | one message to a tenant, on its way or over |
//! | `apikey#SHA256` | `apikey` | an API key: whose it is, never the key itself |
//! | `upload#ID` | `upload` | an upload that was begun, or an object that came by itself |
//! | `job#J` | `upload#ID` | where a document lies that came as an object and became the job |
//! | `job#J` | `wake` | on AWS, the token of the step that waits for a decision |
//! | `idempotency#T` | a key | the job that a request made |
//! | `breaker` | a target | its breaker |
//! | `breaker#…` | `event#…` | its trail |
//! | `slots#…` | `0000000000` | one in-flight slot of a target |
//! | `nodes` | a node | when a process that stores events was last heard of, where they come and go |
//! | `dead#…` | `dead` / `event#…` | a dead letter and its trail |

use serde::{Serialize, de::DeserializeOwned};

use crate::ports::{
    Fault,
    records::{Index, Item, Records},
};

/// A stored value and the version that a write to it must name.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Items read at once when all are wanted.
pub(crate) const BATCH_SIZE: usize = 500;

/// Every item of a partition whose sort key starts with `prefix`, in order.
pub(crate) async fn read_all<T: DeserializeOwned>(
    records: &dyn Records,
    partition: &str,
    prefix: &str,
) -> Result<Vec<Versioned<T>>, Fault> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let listing = records.list(partition, prefix, after.as_deref(), BATCH_SIZE).await?;
        for item in &listing.items {
            all.push(decode(item)?);
        }
        match listing.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// The first `limit` items of an index's partition that `wanted` holds for, from `after` on.
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
            let kept: Versioned<T> = decode(item)?;
            if wanted(&kept.value) {
                all.push(kept);
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

/// Items read per request where the first were not enough.
const LIST_BATCH: usize = 100;

/// Items examined for one page of a list, however few of them match: a rare item is found over
/// several requests, not by one long wait.
const MAX_EXAMINED: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Where the next piece begins; `None` at the end.
    pub next: Option<String>,
}

pub(crate) async fn list_page<T: DeserializeOwned>(
    records: &dyn Records,
    index: Index,
    partition: &str,
    mut after: Option<String>,
    descending: bool,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
) -> Result<ListPage<T>, Fault> {
    let place = |item: &Item| {
        let entry = match index {
            Index::Tenant => &item.draft.tenant_index,
            Index::State => &item.draft.state_index,
        };
        entry.as_ref().map(|entry| entry.sort.clone())
    };
    let mut items = Vec::new();
    let mut looked_at = 0;
    // One more than wanted, to know whether there is more.
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
            after = place(item);
            looked_at += 1;
        }
        match listing.next {
            Some(next) if looked_at >= MAX_EXAMINED => return Ok(ListPage { items, next: Some(next) }),
            Some(next) => after = Some(next),
            None => return Ok(ListPage { items, next: None }),
        }
    }
}
