//! A process's access to the records.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::{
    nodes::{self, Heartbeats},
    outbox::Outbox,
    trail,
};
use crate::{
    keys::index,
    ports::{
        Fault,
        clock::Clock,
        ids::Ids,
        records::{Batch, Change, Records, Written},
    },
    telemetry::spans::Tracer,
};

/// How one process reads and writes records: with its node name, clock and ids. Events that it
/// writes wait in its outbox for the relay.
#[derive(Clone)]
pub struct Store {
    /// Retries faults.
    pub records: Arc<dyn Records>,
    /// Does not retry; for the breakers, which fail open instead of waiting.
    pub records_once: Arc<dyn Records>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub tracer: Tracer,
    /// Names this process in leases and in its outbox.
    pub node: String,
    pub environment: String,
    pub outbox: Arc<Outbox>,
    pub heartbeats: Arc<Heartbeats>,
    pub(crate) stored: watch::Sender<()>,
    /// Signalled when this process stores a notice that is due.
    pub notice_stored: Arc<Notify>,
}

impl Store {
    /// Returns a new lease holder, for one unit of work of this process.
    pub fn holder(&self) -> String {
        format!("{}/{}", self.node, self.ids.fresh())
    }

    /// Applies all changes or none, and adds the events among them to the outbox.
    pub async fn write(&self, changes: Vec<Change>) -> Result<Written, Fault> {
        self.write_to(self.records.as_ref(), changes).await
    }

    /// Like [`Store::write`], without retries.
    pub async fn write_once(&self, changes: Vec<Change>) -> Result<Written, Fault> {
        self.write_to(self.records_once.as_ref(), changes).await
    }

    async fn write_to(&self, records: &dyn Records, changes: Vec<Change>) -> Result<Written, Fault> {
        let has_events = changes
            .iter()
            .any(|change| matches!(change, Change::Put { draft, .. } if trail::is_unpublished(draft)));
        loop {
            let heartbeat = if has_events { nodes::due(self)? } else { None };
            let mut batch = Batch { stamp: self.ids.fresh(), changes: changes.clone() };
            batch.changes.extend(heartbeat.iter().map(|(change, _)| change.clone()));
            let now = self.clock.now();
            let written = records.write(&batch).await?;
            match (&written, heartbeat) {
                (Written::Refused { index, existing }, Some(_)) if *index == changes.len() => {
                    self.heartbeats.found(existing.as_deref())?;
                    continue;
                }
                (Written::Applied, Some((_, when))) => self.heartbeats.recorded(when.next_version(), now),
                _ => {}
            }
            if written == Written::Applied && changes.iter().any(is_due_notice) {
                self.notice_stored.notify_one();
            }
            if written == Written::Applied && self.outbox.add(batch) {
                self.stored.send_replace(());
            }
            return Ok(written);
        }
    }

    /// A channel that changes when this process stores an event; other processes do not change it.
    pub fn watch_stored(&self) -> watch::Receiver<()> {
        self.stored.subscribe()
    }
}

fn is_due_notice(change: &Change) -> bool {
    matches!(change, Change::Put { draft, .. }
        if draft.state_index.as_ref().is_some_and(|entry| entry.partition == index::DUE_NOTICES))
}
