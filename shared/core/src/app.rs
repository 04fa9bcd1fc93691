//! Everything a use case may touch, in one place.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use crate::{
    events::outbox::Outbox,
    ids::JobId,
    ports::{
        Fault,
        blobs::Blobs,
        bus::Bus,
        clock::Clock,
        flow::Flow,
        hooks::Hooks,
        ids::Ids,
        notifier::Notifier,
        payments::Payments,
        pdf::Pdf,
        queue::Queue,
        records::{Batch, Change, Records, Written},
        retrying::Retrying,
        traces::Traces,
        vault::Vault,
        vision::Vision,
    },
    read::{breakers::BreakerCache, slots::Gates},
    settings::Settings,
    tenants::TenantCache,
};

/// The outside world as given by an engine.
#[derive(Clone)]
pub struct Ports {
    pub records: Arc<dyn Records>,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub pdf: Arc<dyn Pdf>,
    pub vision: Arc<dyn Vision>,
    pub bus: Arc<dyn Bus>,
    pub notifier: Arc<dyn Notifier>,
    pub hooks: Arc<dyn Hooks>,
    pub payments: Arc<dyn Payments>,
    pub vault: Arc<dyn Vault>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub traces: Arc<dyn Traces>,
}

/// What of the world is the same for every engine: whoever reads, and whom we speak to.
#[derive(Clone)]
pub struct Outside {
    pub pdf: Arc<dyn Pdf>,
    pub vision: Arc<dyn Vision>,
    pub hooks: Arc<dyn Hooks>,
    pub payments: Arc<dyn Payments>,
    pub traces: Arc<dyn Traces>,
}

pub struct App {
    /// Tried again on faults, as are `blobs`, `queue` and `flow`.
    pub records: Arc<dyn Records>,
    /// For what must not wait: the breaker's store fails open instead of being retried.
    pub records_once: Arc<dyn Records>,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub pdf: Arc<dyn Pdf>,
    pub vision: Arc<dyn Vision>,
    pub bus: Arc<dyn Bus>,
    pub notifier: Arc<dyn Notifier>,
    pub hooks: Arc<dyn Hooks>,
    pub payments: Arc<dyn Payments>,
    pub vault: Arc<dyn Vault>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub traces: Arc<dyn Traces>,
    pub settings: Settings,
    /// Names this process: in leases, and for the outbox that it relays.
    pub node: String,
    pub breakers: BreakerCache,
    pub tenants: TenantCache,
    pub gates: Gates,
    /// What this process has stored and not published.
    pub outbox: Outbox,
    interrupts: broadcast::Sender<JobId>,
    news: watch::Sender<()>,
    webhooks: tokio::sync::Notify,
}

/// A wish to stop, seen by work that can then put away what it holds.
#[derive(Clone, Default)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends once [`Stop::ask`] was called.
    pub async fn asked(&self) {
        // An error would mean that the sender is gone, but it is `self`.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

impl App {
    pub fn new(ports: Ports, settings: Settings, node: impl Into<String>) -> Self {
        let (clock, pauses) = (&ports.clock, &settings.retry_intervals);
        Self {
            records: Arc::new(Retrying::new(ports.records.clone(), clock.clone(), pauses.clone())),
            records_once: ports.records,
            blobs: Arc::new(Retrying::new(ports.blobs, clock.clone(), pauses.clone())),
            queue: Arc::new(Retrying::new(ports.queue, clock.clone(), pauses.clone())),
            flow: Arc::new(Retrying::new(ports.flow, clock.clone(), pauses.clone())),
            pdf: ports.pdf,
            vision: ports.vision,
            bus: ports.bus,
            notifier: ports.notifier,
            hooks: ports.hooks,
            payments: ports.payments,
            vault: ports.vault,
            clock: ports.clock,
            ids: ports.ids,
            traces: ports.traces,
            gates: Gates::new(settings.max_inflight_per_model),
            settings,
            node: node.into(),
            breakers: BreakerCache::default(),
            tenants: TenantCache::default(),
            outbox: Outbox::default(),
            interrupts: broadcast::Sender::new(64),
            news: watch::Sender::new(()),
            webhooks: tokio::sync::Notify::new(),
        }
    }

    /// A name for one piece of work of this process, as a lease's holder.
    pub fn holder(&self) -> String {
        format!("{}/{}", self.node, self.ids.fresh())
    }

    /// Makes workers of this process look at the job again at once instead of at their next beat.
    pub fn interrupt(&self, job: &JobId) {
        // Nobody listening is fine: then nobody works on it here.
        let _ = self.interrupts.send(job.clone());
    }

    /// Ends when [`App::interrupt`] is called for `job` from now on.
    pub fn interrupted(&self, job: &JobId) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.interrupts.subscribe();
        let job = job.clone();
        async move {
            loop {
                match receiver.recv().await {
                    Ok(interrupted) if interrupted == job => return,
                    Ok(_) => {}
                    // Missed some: one may have been ours.
                    Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        }
    }

    /// Writes all of it or nothing. Events among it wait for the relay from then on.
    pub async fn write(&self, changes: Vec<Change>) -> Result<Written, Fault> {
        self.write_to(self.records.as_ref(), changes).await
    }

    /// The same for what must not wait: it is not tried again.
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

    /// Changes with every event that this process stores; what other processes store is not told.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Tells the sender of this process that a webhook is due.
    pub fn announced(&self) {
        self.webhooks.notify_one();
    }

    /// Ends when a webhook became due since the last time.
    pub async fn announcement(&self) {
        self.webhooks.notified().await;
    }
}
