//! A process's access to the records.

use std::sync::Arc;

use tokio::sync::watch;

use super::outbox::Outbox;
use crate::{
    ports::{
        Fault,
        clock::Clock,
        ids::Ids,
        records::{Batch, Change, Records, Written},
    },
    telemetry::spans::Tracer,
};

/// The records as one process reads and writes them: under which node, at what time, with which ids.
/// Events that it writes wait in its outbox for the relay.
#[derive(Clone)]
pub struct Store {
    /// Retries faults.
    pub records: Arc<dyn Records>,
    /// Does not retry: for the breakers, which fail open instead of waiting.
    pub records_once: Arc<dyn Records>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub tracer: Tracer,
    /// Names this process in leases and in its outbox.
    pub node: String,
    pub environment: String,
    pub outbox: Arc<Outbox>,
    pub(crate) news: watch::Sender<()>,
}

impl Store {
    /// A unique holder of a lease, for one piece of work of this process.
    pub fn holder(&self) -> String {
        format!("{}/{}", self.node, self.ids.fresh())
    }

    /// Applies all changes or none. Events among them wait for the relay from then on.
    pub async fn write(&self, changes: Vec<Change>) -> Result<Written, Fault> {
        self.write_to(self.records.as_ref(), changes).await
    }

    /// Like [`Store::write`], without retries.
    pub async fn write_once(&self, changes: Vec<Change>) -> Result<Written, Fault> {
        self.write_to(self.records_once.as_ref(), changes).await
    }

    async fn write_to(&self, records: &dyn Records, changes: Vec<Change>) -> Result<Written, Fault> {
        let batch = Batch { stamp: self.ids.fresh(), changes };
        let written = records.write(&batch).await?;
        if written == Written::Applied && self.outbox.add(batch) {
            self.news.send_replace(());
        }
        Ok(written)
    }

    /// Changes with every event that this process stores, not with those of other processes.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }
}
