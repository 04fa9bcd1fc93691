//! Heartbeats of processes that store events and may end without notice, such as instances of a
//! function. One that stops sending heartbeats may have left events unpublished.

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
    /// Its last heartbeat.
    pub seen: Timestamp,
}

/// Records a heartbeat of this process. Called before events are stored, and again well before the
/// time after which other processes consider this one dead.
pub async fn record_heartbeat(store: &Store) -> Result<(), Fault> {
    let key = record::node(&store.node);
    let known = store.records.get(&key).await?;
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let node = Node { node: store.node.clone(), seen: store.clock.now() };
    let change = Change::Put { draft: Draft::new(key, encode(&node)?), when };
    // Refused if the record was just deleted as silent: the next heartbeat creates it again.
    store.write(vec![change]).await?;
    Ok(())
}

/// Lists the nodes without a heartbeat for `time`.
pub async fn list_silent(store: &Store, time: Duration) -> Result<Vec<Versioned<Node>>, Fault> {
    let now = store.clock.now();
    let mut all: Vec<Versioned<Node>> = read_all(store.records.as_ref(), record::NODES, "").await?;
    all.retain(|node| after(node.value.seen, time) <= now);
    Ok(all)
}

/// Deletes a node, unless it has sent a heartbeat since it was read.
pub async fn delete(store: &Store, node: &Versioned<Node>) -> Result<(), Fault> {
    let change = Change::Delete { key: record::node(&node.value.node), version: node.version };
    store.write(vec![change]).await?;
    Ok(())
}
