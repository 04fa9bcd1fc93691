//! Ports with injected faults: a call is refused before it happens, or happens and its reply is lost.
//! [`Faults`] fails chosen calls; the simulation has a [`FaultInjector`] of its own.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    event::Event,
    ids::{JobId, Priority},
    job::State,
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        bus::Bus,
        flow::{Flow, FlowStart},
        hooks::{HookError, Hooks, WebhookRequest},
        notifier::{Channel, Notice, Notifier},
        payments::{Charge, PaymentError, Payments, Refund},
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Index, Item, Key, Listing, Records, Written},
        vault::Vault,
    },
    secret::Secret,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The call never happens.
    Refuse,
    /// The call happens, but its reply never arrives.
    LoseReply,
    /// The call, and every call after it, never returns: the process has stopped.
    Stop,
}

/// Counts every port call of a run and fails the chosen one, `times` times in a row.
#[derive(Default)]
pub struct Faults {
    calls: AtomicUsize,
    plan: Option<(usize, usize, Mode)>,
    failed_call: Mutex<Option<&'static str>>,
    called: Mutex<BTreeSet<&'static str>>,
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

    /// Resolves when a call was stopped.
    pub fn stopped(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let this = self.clone();
        async move { this.stopped.notified().await }
    }

    /// No more faults from now on: another process has started.
    pub fn resume(&self) {
        self.resumed.store(true, Ordering::SeqCst);
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The names of all calls so far.
    pub fn called(&self) -> BTreeSet<&'static str> {
        self.called.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The first call that was made to fail, if any.
    pub fn failed_call(&self) -> Option<&'static str> {
        *self.failed_call.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A fault that is injected into a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injection {
    None,
    Refuse(Fault),
    /// The call happens, and its caller gets this fault.
    LoseReply(Fault),
}

/// Decides what happens to every call of a process to its ports.
#[async_trait]
pub trait FaultInjector: Send + Sync {
    /// May delay the call, or never return: then the process hangs in this call.
    async fn before(&self, call: &'static str) -> Injection;

    /// Runs before the reply of a call that happened is returned.
    async fn after(&self) {}
}

#[async_trait]
impl FaultInjector for Faults {
    async fn before(&self, call: &'static str) -> Injection {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        self.called.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(call);
        let plan = self.plan.filter(|_| !self.resumed.load(Ordering::SeqCst));
        let Some((at, times, mode)) = plan else { return Injection::None };
        if !(at..at + times).contains(&number) {
            return Injection::None;
        }
        self.failed_call.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(call);
        let fault = Fault::Unreachable { service: "test", detail: format!("{call} was made to fail") };
        match mode {
            Mode::Stop => {
                self.stopped.notify_one();
                std::future::pending().await
            }
            Mode::Refuse => Injection::Refuse(fault),
            Mode::LoseReply => Injection::LoseReply(fault),
        }
    }
}

/// A port with injected faults.
pub struct Faulty<P: ?Sized> {
    inner: Arc<P>,
    injector: Arc<dyn FaultInjector>,
}

impl<P: ?Sized> Faulty<P> {
    pub fn new(inner: Arc<P>, injector: Arc<dyn FaultInjector>) -> Self {
        Self { inner, injector }
    }

    async fn around<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        match self.injector.before(name).await {
            Injection::Refuse(fault) => Err(fault),
            Injection::None => {
                let reply = call.await;
                self.injector.after().await;
                reply
            }
            Injection::LoseReply(fault) => {
                call.await?;
                Err(fault)
            }
        }
    }
}

#[async_trait]
impl Records for Faulty<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.around("records.get", self.inner.get(key)).await
    }
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.around("records.get_many", self.inner.get_many(keys)).await
    }
    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.around("records.list", self.inner.list(partition, prefix, after, limit)).await
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
        self.around("records.list_index", call).await
    }
    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        self.around("records.write", self.inner.write(batch)).await
    }
}

#[async_trait]
impl Blobs for Faulty<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        self.around("blobs.put_new", self.inner.put_new(key, bytes)).await
    }
    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.around("blobs.put_file", self.inner.put_file(key, file)).await
    }
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.around("blobs.get", self.inner.get(key)).await
    }
    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        self.around("blobs.open", self.inner.open(key)).await
    }
    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.around("blobs.delete", self.inner.delete(key)).await
    }
    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.around("blobs.delete_all", self.inner.delete_all(prefix)).await
    }
}

#[async_trait]
impl Queue for Faulty<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        self.around("queue.send", self.inner.send(messages)).await
    }
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.around("queue.receive", self.inner.receive(max, visibility)).await
    }
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.around("queue.extend", self.inner.extend(receipt, visibility)).await
    }
    async fn put_back(&self, receipt: &Receipt, delay: Duration) -> Result<(), Fault> {
        self.around("queue.put_back", self.inner.put_back(receipt, delay)).await
    }
    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.around("queue.delete", self.inner.delete(receipt)).await
    }
    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.around("queue.receive_dead_letters", self.inner.receive_dead_letters(max, visibility)).await
    }
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.around("queue.depths", self.inner.depths()).await
    }
    async fn about_depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.around("queue.about_depths", self.inner.about_depths()).await
    }
    async fn wake(&self) -> Result<bool, Fault> {
        self.around("queue.wake", self.inner.wake()).await
    }
    fn max_delay(&self) -> Duration {
        self.inner.max_delay()
    }
}

#[async_trait]
impl Flow for Faulty<dyn Flow> {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        self.around("flow.start", self.inner.start(start)).await
    }
    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        self.around("flow.pages_settled", self.inner.pages_settled(job)).await
    }
    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        self.around("flow.wake", self.inner.wake(job)).await
    }

    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault> {
        self.around("flow.remind", self.inner.remind(job, state)).await
    }
}

#[async_trait]
impl Bus for Faulty<dyn Bus> {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        self.around("bus.publish", self.inner.publish(events)).await
    }
}

#[async_trait]
impl Notifier for Faulty<dyn Notifier> {
    fn channel(&self) -> Channel {
        self.inner.channel()
    }
    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        self.around("notifier.notify", self.inner.notify(notice)).await
    }
}

#[async_trait]
impl Hooks for Faulty<dyn Hooks> {
    fn check(&self, url: &str) -> Result<(), String> {
        self.inner.check(url)
    }
    async fn post(&self, call: &WebhookRequest) -> Result<(), HookError> {
        let posted = async { Ok(self.inner.post(call).await) };
        let posted = self.around("hooks.post", posted).await;
        posted.unwrap_or_else(|fault| Err(HookError::Failed(fault.to_string())))
    }
}

#[async_trait]
impl Payments for Faulty<dyn Payments> {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let charged = async { Ok(self.inner.charge(charge).await) };
        let charged = self.around("payments.charge", charged).await;
        charged.unwrap_or_else(|fault| Err(PaymentError::Unavailable(fault.to_string())))
    }
    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        let refunded = async { Ok(self.inner.refund(refund).await) };
        let refunded = self.around("payments.refund", refunded).await;
        refunded.unwrap_or_else(|fault| Err(PaymentError::Unavailable(fault.to_string())))
    }
}

#[async_trait]
impl Vault for Faulty<dyn Vault> {
    async fn seal(&self, secret: &Secret) -> Result<String, Fault> {
        self.around("vault.seal", self.inner.seal(secret)).await
    }
    async fn open(&self, sealed: &str) -> Result<Secret, Fault> {
        self.around("vault.open", self.inner.open(sealed)).await
    }
}
