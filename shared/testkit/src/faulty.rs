//! Ports that fail once, at a chosen call: refused before it happened, or done with its reply lost.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        event::Event,
        ids::{JobId, Priority, TaskToken},
        secret::Secret,
    },
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        bus::Bus,
        flow::{Flow, Settlement},
        hooks::{Call, HookError, Hooks},
        notifier::{Notice, Notifier},
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Index, Item, Key, Listing, Records, Written},
        vault::Vault,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The call never happens.
    Refuse,
    /// The call happens, but its answer never arrives.
    LoseReply,
    /// The call, and every call after it, never returns: the process has stopped.
    Stop,
}

/// Counts every port call of a run and fails the chosen one, `times` times in a row.
#[derive(Default)]
pub struct Faults {
    calls: AtomicUsize,
    plan: Option<(usize, usize, Mode)>,
    struck: Mutex<Option<&'static str>>,
    resumed: AtomicBool,
    stopped: tokio::sync::Notify,
}

impl Faults {
    pub fn none() -> Arc<Self> {
        Arc::default()
    }

    /// Fails calls `at`, `at + 1`, …, `at + times - 1`, counted from 0.
    pub fn at(at: usize, times: usize, mode: Mode) -> Arc<Self> {
        Arc::new(Self { plan: Some((at, times, mode)), ..Self::default() })
    }

    /// Stops the process at call `at`.
    pub fn stop_at(at: usize) -> Arc<Self> {
        Self::at(at, usize::MAX / 2, Mode::Stop)
    }

    /// Ends when a call was stopped.
    pub fn stopped(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let this = self.clone();
        async move { this.stopped.notified().await }
    }

    /// No more faults from here on: another process has started.
    pub fn resume(&self) {
        self.resumed.store(true, Ordering::SeqCst);
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The call that was failed first, if any was.
    pub fn struck(&self) -> Option<&'static str> {
        *self.struck.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn around<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let plan = self.plan.filter(|_| !self.resumed.load(Ordering::SeqCst));
        let mode = plan.and_then(|(at, times, mode)| (at..at + times).contains(&number).then_some(mode));
        if mode.is_some() {
            self.struck.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(name);
        }
        let fault = Fault::Unreachable { service: "test", detail: format!("{name} was made to fail") };
        match mode {
            None => call.await,
            Some(Mode::Stop) => {
                self.stopped.notify_one();
                std::future::pending().await
            }
            Some(Mode::Refuse) => Err(fault),
            Some(Mode::LoseReply) => {
                call.await?;
                Err(fault)
            }
        }
    }
}

/// A port whose calls pass through [`Faults`].
pub struct Faulty<P: ?Sized> {
    pub inner: Arc<P>,
    pub faults: Arc<Faults>,
}

impl<P: ?Sized> Faulty<P> {
    pub fn new(inner: Arc<P>, faults: &Arc<Faults>) -> Self {
        Self { inner, faults: faults.clone() }
    }
}

#[async_trait]
impl Records for Faulty<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.faults.around("records.get", self.inner.get(key)).await
    }
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.faults.around("records.get_many", self.inner.get_many(keys)).await
    }
    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.faults.around("records.list", self.inner.list(partition, prefix, after, limit)).await
    }
    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let call = self.inner.list_index(index, partition, after, descending, limit);
        self.faults.around("records.list_index", call).await
    }
    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        self.faults.around("records.write", self.inner.write(batch)).await
    }
}

#[async_trait]
impl Blobs for Faulty<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        self.faults.around("blobs.put_new", self.inner.put_new(key, bytes)).await
    }
    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.faults.around("blobs.put_file", self.inner.put_file(key, file)).await
    }
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.faults.around("blobs.get", self.inner.get(key)).await
    }
    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        self.faults.around("blobs.open", self.inner.open(key)).await
    }
    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.faults.around("blobs.delete_all", self.inner.delete_all(prefix)).await
    }
}

#[async_trait]
impl Queue for Faulty<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        self.faults.around("queue.send", self.inner.send(messages)).await
    }
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.faults.around("queue.receive", self.inner.receive(max, visibility)).await
    }
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.faults.around("queue.extend", self.inner.extend(receipt, visibility)).await
    }
    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.faults.around("queue.delete", self.inner.delete(receipt)).await
    }
    async fn bury(&self, lane: Priority, body: &str, reason: &str) -> Result<(), Fault> {
        self.faults.around("queue.bury", self.inner.bury(lane, body, reason)).await
    }
    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.faults.around("queue.receive_dead", self.inner.receive_dead(max, visibility)).await
    }
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.faults.around("queue.depths", self.inner.depths()).await
    }
}

#[async_trait]
impl Flow for Faulty<dyn Flow> {
    async fn start(&self, job: &JobId, redrives: u32) -> Result<(), Fault> {
        self.faults.around("flow.start", self.inner.start(job, redrives)).await
    }
    async fn settle(&self, token: &TaskToken) -> Result<Settlement, Fault> {
        self.faults.around("flow.settle", self.inner.settle(token)).await
    }
    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        self.faults.around("flow.wake", self.inner.wake(job)).await
    }
}

#[async_trait]
impl Bus for Faulty<dyn Bus> {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        self.faults.around("bus.publish", self.inner.publish(events)).await
    }
}

#[async_trait]
impl Notifier for Faulty<dyn Notifier> {
    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        self.faults.around("notifier.notify", self.inner.notify(notice)).await
    }
}

#[async_trait]
impl Hooks for Faulty<dyn Hooks> {
    fn check(&self, url: &str) -> Result<(), String> {
        self.inner.check(url)
    }
    async fn post(&self, call: &Call) -> Result<(), HookError> {
        let posted = async { Ok(self.inner.post(call).await) };
        self.faults
            .around("hooks.post", posted)
            .await
            .unwrap_or_else(|fault: Fault| Err(HookError::Failed(fault.to_string())))
    }
}

#[async_trait]
impl Vault for Faulty<dyn Vault> {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        self.faults.around("vault.seal", self.inner.seal(secret)).await
    }
    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        self.faults.around("vault.open", self.inner.open(sealed)).await
    }
}
