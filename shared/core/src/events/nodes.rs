//! Heartbeats of processes that store events and may end without notice, such as instances of a
//! function. One that stops sending heartbeats may have left events unpublished.
//!
//! A heartbeat can fail. So a process that has none on record, or only an old one, stores it together with
//! its next event: no event is ever stored by a process that no other one knows.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, Item, When, Written},
    },
    records::{Versioned, decode, encode, read_all},
    time::after,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: String,
    /// Its last heartbeat.
    pub seen: Timestamp,
}

/// A heartbeat that is older than this is stored again with the next event: long before
/// [`NODE_TIMEOUT`](crate::recover::sweep::NODE_TIMEOUT), however far clocks are off.
const MAX_AGE: Duration = Duration::from_secs(90);

/// This process's own record, as it was last stored.
#[derive(Default)]
pub struct Heartbeats(Mutex<State>);

#[derive(Clone, Copy, Default)]
enum State {
    /// Other processes find this one's events without it, as on one machine.
    #[default]
    NotNeeded,
    Missing,
    Recorded {
        version: u64,
        at: Timestamp,
    },
}

impl Heartbeats {
    /// The condition under which a heartbeat is to be stored with an event now; `None` when that is not
    /// needed.
    fn due(&self, now: Timestamp) -> Option<When> {
        match *self.0.lock() {
            State::Missing => Some(When::Absent),
            State::Recorded { version, at } if after(at, MAX_AGE) <= now => Some(When::Version(version)),
            State::NotNeeded | State::Recorded { .. } => None,
        }
    }

    /// Makes the next event store a heartbeat with it, unless one is on record.
    pub fn require(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::NotNeeded) {
            *state = State::Missing;
        }
    }

    fn set(&self, state: State) {
        *self.0.lock() = state;
    }

    pub(super) fn recorded(&self, version: u64, at: Timestamp) {
        self.set(State::Recorded { version, at });
    }

    /// Takes over what another task of this process, or the sweep, has made of the record.
    pub(super) fn found(&self, existing: Option<&Item>) -> Result<(), Fault> {
        let node: Option<Versioned<Node>> = existing.map(decode).transpose()?;
        self.set(
            node.map_or(State::Missing, |node| State::Recorded {
                version: node.version,
                at: node.value.seen,
            }),
        );
        Ok(())
    }
}

/// The write of a heartbeat that is due with the next event.
pub(super) fn due(store: &Store) -> Result<Option<(Change, When)>, Fault> {
    let now = store.clock.now();
    store.heartbeats.due(now).map(|when| Ok((heartbeat(store, when)?, when))).transpose()
}

fn heartbeat(store: &Store, when: When) -> Result<Change, Fault> {
    let node = Node { node: store.node.clone(), seen: store.clock.now() };
    Ok(Change::Put { draft: Draft::new(record::node(&store.node), encode(&node)?), when })
}

/// Records a heartbeat of this process. Called before events are stored, and again well before the
/// time after which other processes consider this one dead. If it fails, it is stored with the next event.
pub async fn record_heartbeat(store: &Store) -> Result<(), Fault> {
    store.heartbeats.require();
    let known = store.records.get(&record::node(&store.node)).await?;
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let now = store.clock.now();
    match store.write(vec![heartbeat(store, when)?]).await? {
        Written::Applied => store.heartbeats.recorded(when.next_version(), now),
        // Just recorded by another task, or just deleted as silent.
        Written::Refused { existing, .. } => store.heartbeats.found(existing.as_deref())?,
    }
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
