//! Faults of storage, and kills, at the port calls of one process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::ports::{Fault, clock::Clock};
use everypage_testkit::faulty::{FaultInjector, Injection};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    faults::{PlannedFault, StorageFault, name},
    observer::Observer,
    run_plan::RunPlan,
};

/// The maximum latency of a call and of its reply, so that a kill can fall between any two steps.
const MAX_LATENCY_MS: u64 = 8;

pub struct ChaosCalls {
    plan: Arc<RunPlan>,
    observer: Arc<Observer>,
    process: usize,
    rng: Mutex<StdRng>,
    /// The calls of this process, over all its runs.
    calls: Arc<AtomicU64>,
    /// Receives a value just before a call at which the process is killed: when it restarts.
    kills: UnboundedSender<Option<Duration>>,
}

impl ChaosCalls {
    pub fn new(
        plan: &Arc<RunPlan>,
        observer: &Arc<Observer>,
        process: usize,
        run: u64,
        calls: Arc<AtomicU64>,
        kills: UnboundedSender<Option<Duration>>,
    ) -> Self {
        let rng = StdRng::seed_from_u64(plan.seed ^ ((process as u64) << 48) ^ (run << 56));
        let (plan, observer) = (plan.clone(), observer.clone());
        Self { plan, observer, process, rng: Mutex::new(rng), calls, kills }
    }

    fn draw(&self, bound: u64) -> u64 {
        let mut rng = self.rng.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        rng.random_range(0..bound.max(1))
    }

    /// When the process restarts, if it is killed at this call.
    fn kill_at_this_call(&self) -> Option<Option<Duration>> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.plan.faults.iter().find_map(|fault| match fault {
            PlannedFault::KillAtCall { process, call, back_after }
                if *process == self.process && *call == number =>
            {
                Some(*back_after)
            }
            _ => None,
        })
    }

    async fn add_latency(&self) {
        let time = Duration::from_millis(self.draw(MAX_LATENCY_MS));
        self.observer.clock.sleep(time).await;
    }
}

#[async_trait]
impl FaultInjector for ChaosCalls {
    async fn before(&self, call: &'static str) -> Injection {
        if let Some(back_after) = self.kill_at_this_call() {
            let _ = self.kills.send(back_after);
            std::future::pending::<()>().await;
        }
        self.add_latency().await;
        for fault in &self.plan.faults {
            let PlannedFault::Storage { port, window, one_in, kind } = fault else { continue };
            if !window.covers(self.observer.now()) || !port.has(call) || self.draw(*one_in) != 0 {
                continue;
            }
            self.observer.count_fault(&format!("storage: {}", name(kind)));
            let detail = format!("{call} was made to fail");
            let fault = Fault::Unreachable { service: "simulation", detail };
            let injection = match kind {
                StorageFault::Refuses => Injection::Refuse(fault),
                StorageFault::LosesReplies => Injection::LoseReply(fault),
                StorageFault::Throttles => {
                    let retry_after = (self.draw(2) == 0).then(|| Duration::from_millis(self.draw(3000)));
                    Injection::Refuse(Fault::Throttled { service: "simulation", retry_after })
                }
                StorageFault::IsSlow(by) => {
                    self.observer.clock.sleep(*by).await;
                    continue;
                }
            };
            self.observer.log(|| format!("process {}: {call}: {injection:?}", self.process));
            return injection;
        }
        Injection::None
    }

    async fn after(&self) {
        self.add_latency().await;
    }
}
