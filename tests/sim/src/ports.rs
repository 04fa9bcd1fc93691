//! Ports that only the simulation has, and wrappers around the ports of a process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::Ports,
    ids::JobId,
    job,
    ports::{
        Fault,
        blobs::Blobs,
        bus::Bus,
        clock::Clock,
        flow::{Flow, FlowStart},
        hooks::Hooks,
        ids::Ids,
        notifier::Notifier,
        payments::Payments,
        pdf::Pdf,
        queue::Queue,
        records::Records,
        vault::Vault,
        vision::Vision,
    },
};
use everypage_local::LocalFlow;
use everypage_testkit::{clock::VirtualClock, faulty::Faulty};
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    broken_variants::{BrokenPort, BrokenVariant, OpenCalls},
    chaos_calls::ChaosCalls,
};

/// Routes to the process that drives a job, like Step Functions.
#[derive(Default)]
pub struct FlowRouter(Mutex<BTreeMap<usize, Arc<LocalFlow>>>);

impl FlowRouter {
    pub fn flows(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<LocalFlow>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[async_trait]
impl Flow for FlowRouter {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        let first = self.flows().values().next().cloned();
        match first {
            Some(flow) => flow.start(start).await,
            None => Ok(()),
        }
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        let all: Vec<_> = self.flows().values().cloned().collect();
        for flow in all {
            flow.pages_settled(job).await?;
        }
        Ok(())
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        let all: Vec<_> = self.flows().values().cloned().collect();
        for flow in all {
            flow.wake(job).await?;
        }
        Ok(())
    }

    async fn remind(&self, job: &JobId, _: job::State) -> Result<(), Fault> {
        self.wake(job).await
    }
}

/// A clock that is wrong by `skew` milliseconds.
pub struct SkewedClock {
    pub clock: Arc<VirtualClock>,
    pub skew: i64,
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + jiff::SignedDuration::from_millis(self.skew)
    }

    async fn sleep(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

/// Ids that count up, and random numbers from the run's seed.
pub struct SeededIds {
    state: Mutex<(u64, StdRng)>,
}

impl SeededIds {
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new((0, StdRng::seed_from_u64(seed.rotate_left(32)))) }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, StdRng)> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Ids for SeededIds {
    fn fresh(&self) -> String {
        let mut state = self.lock();
        state.0 += 1;
        format!("{:06}", state.0)
    }

    fn random_below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.lock().1.random_range(0..bound) }
    }
}

/// The ports of a process, without the guarantee that the variant lacks.
pub fn break_ports(ports: Ports, variant: BrokenVariant, process: usize) -> Ports {
    fn on<P: ?Sized>(
        inner: Arc<P>,
        variant: BrokenVariant,
        process: usize,
        (bus, clock): &(Arc<dyn Bus>, Arc<dyn Clock>),
    ) -> BrokenPort<P> {
        BrokenPort {
            inner,
            variant,
            process,
            bus: bus.clone(),
            calls: AtomicU64::default(),
            open_calls: OpenCalls::default(),
            failed: Mutex::default(),
            clock: clock.clone(),
        }
    }
    let used = (ports.bus.clone(), ports.clock.clone());
    Ports {
        records: Arc::new(on::<dyn Records>(ports.records, variant, process, &used)),
        blobs: Arc::new(on::<dyn Blobs>(ports.blobs, variant, process, &used)),
        queue: Arc::new(on::<dyn Queue>(ports.queue, variant, process, &used)),
        clock: Arc::new(on::<dyn Clock>(ports.clock, variant, process, &used)),
        pdf: Arc::new(on::<dyn Pdf>(ports.pdf, variant, process, &used)),
        payments: Arc::new(on::<dyn Payments>(ports.payments, variant, process, &used)),
        flow: Arc::new(on::<dyn Flow>(ports.flow, variant, process, &used)),
        vision: Arc::new(on::<dyn Vision>(ports.vision, variant, process, &used)),
        ..ports
    }
}

/// The ports of a process, with the faults of its calls.
pub fn with_chaos(ports: Ports, chaos: Arc<ChaosCalls>) -> Ports {
    fn to<P: ?Sized>(chaos: &Arc<ChaosCalls>, inner: Arc<P>) -> Faulty<P> {
        Faulty::new(inner, chaos.clone())
    }
    Ports {
        records: Arc::new(to::<dyn Records>(&chaos, ports.records)),
        blobs: Arc::new(to::<dyn Blobs>(&chaos, ports.blobs)),
        queue: Arc::new(to::<dyn Queue>(&chaos, ports.queue)),
        flow: Arc::new(to::<dyn Flow>(&chaos, ports.flow)),
        bus: Arc::new(to::<dyn Bus>(&chaos, ports.bus)),
        notifiers: ports
            .notifiers
            .into_iter()
            .map(|notifier| Arc::new(to::<dyn Notifier>(&chaos, notifier)) as Arc<dyn Notifier>)
            .collect(),
        hooks: Arc::new(to::<dyn Hooks>(&chaos, ports.hooks)),
        payments: Arc::new(to::<dyn Payments>(&chaos, ports.payments)),
        vault: Arc::new(to::<dyn Vault>(&chaos, ports.vault)),
        ..ports
    }
}
