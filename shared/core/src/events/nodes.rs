//! Processes that store events and may vanish without a word, such as instances of a function: who
//! falls silent may have left events unpublished.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, When},
    },
    records::{Versioned, encode, read_all},
    time::after,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: String,
    pub seen: Timestamp,
}

/// Tells that this process is there. Call it before storing events, and again long before the time
/// after which others take it for gone.
pub async fn seen(store: &Store) -> Result<(), Fault> {
    let key = record::node(&store.node);
    let known = store.records.get(&key).await?;
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let node = Node { node: store.node.clone(), seen: store.clock.now() };
    let change = Change::Put { draft: Draft::new(key, encode(&node)?), when };
    // Refused when it was just forgotten as silent: the next call tells again.
    store.write(vec![change]).await?;
    Ok(())
}

/// Those not heard of for `time`.
pub async fn silent(store: &Store, time: Duration) -> Result<Vec<Versioned<Node>>, Fault> {
    let now = store.clock.now();
    let mut all: Vec<Versioned<Node>> = read_all(store.records.as_ref(), record::NODES, "").await?;
    all.retain(|kept| after(kept.value.seen, time) <= now);
    Ok(all)
}

/// Unless it was heard of since.
pub async fn forget(store: &Store, node: &Versioned<Node>) -> Result<(), Fault> {
    let change = Change::Delete { key: record::node(&node.value.node), version: node.version };
    store.write(vec![change]).await?;
    Ok(())
}
