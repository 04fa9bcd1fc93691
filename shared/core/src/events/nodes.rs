//! Processes that store events and may vanish without a word, such as instances of a function: who
//! falls silent may have left events unpublished.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys::record;
use crate::records::{Kept, encode, read_all};
use crate::{
    app::App,
    ports::{
        Fault,
        records::{Change, Draft, Key, When},
    },
    time::after,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: String,
    pub seen: Timestamp,
}

/// Tells that this process is there. Call it before storing events, and again long before the time
/// after which others take it for gone.
pub async fn seen(app: &App) -> Result<(), Fault> {
    let key = record::node(&app.node);
    let known = app.records.get(&key).await?;
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let node = Node { node: app.node.clone(), seen: app.clock.now() };
    let change = Change::Put { draft: Draft::new(key, encode(&node)?), when };
    // Refused when it was just forgotten as silent: the next call tells again.
    app.write(vec![change]).await?;
    Ok(())
}

/// Those not heard of for `time`.
pub async fn silent(app: &App, time: Duration) -> Result<Vec<Kept<Node>>, Fault> {
    let now = app.clock.now();
    let mut all: Vec<Kept<Node>> = read_all(app, record::NODES, "").await?;
    all.retain(|kept| after(kept.value.seen, time) <= now);
    Ok(all)
}

/// Unless it was heard of since.
pub async fn forget(app: &App, node: &Kept<Node>) -> Result<(), Fault> {
    let change = Change::Delete { key: record::node(&node.value.node), version: node.version };
    app.write(vec![change]).await?;
    Ok(())
}
