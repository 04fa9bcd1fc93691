//! What the storage of a run does to the calls of one process.

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
    plan::Plan,
    trouble::{Failing, Trouble, name},
    witness::Witness,
};

/// A call and its reply take up to this each, so that a kill falls between any two steps.
const ON_THE_WAY: u64 = 8;

pub struct Weather {
    plan: Arc<Plan>,
    witness: Arc<Witness>,
    process: usize,
    dice: Mutex<StdRng>,
    /// Of this process, in all its lives.
    calls: Arc<AtomicU64>,
    /// Told when the process is about to make a call that it dies at, with when it comes back.
    dies: UnboundedSender<Option<Duration>>,
}

impl Weather {
    pub fn new(
        plan: &Arc<Plan>,
        witness: &Arc<Witness>,
        process: usize,
        life: u64,
        calls: Arc<AtomicU64>,
        dies: UnboundedSender<Option<Duration>>,
    ) -> Self {
        let dice = StdRng::seed_from_u64(plan.seed ^ ((process as u64) << 48) ^ (life << 56));
        let (plan, witness) = (plan.clone(), witness.clone());
        Self { plan, witness, process, dice: Mutex::new(dice), calls, dies }
    }

    fn roll(&self, bound: u64) -> u64 {
        let mut dice = self.dice.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        dice.random_range(0..bound.max(1))
    }

    /// When the process comes back, if it dies at this call.
    fn dies_now(&self) -> Option<Option<Duration>> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.plan.troubles.iter().find_map(|trouble| match trouble {
            Trouble::KillAtCall { process, call, back_after }
                if *process == self.process && *call == number =>
            {
                Some(*back_after)
            }
            _ => None,
        })
    }

    async fn travel(&self) {
        let time = Duration::from_millis(self.roll(ON_THE_WAY));
        self.witness.clock.sleep(time).await;
    }
}

#[async_trait]
impl FaultInjector for Weather {
    async fn before(&self, call: &'static str) -> Injection {
        if let Some(back_after) = self.dies_now() {
            let _ = self.dies.send(back_after);
            std::future::pending::<()>().await;
        }
        self.travel().await;
        for trouble in &self.plan.troubles {
            let Trouble::Storage { port, window, one_in, failing } = trouble else { continue };
            if !window.covers(self.witness.now()) || !port.has(call) || self.roll(*one_in) != 0 {
                continue;
            }
            self.witness.struck(&format!("storage: {}", name(failing)));
            let detail = format!("{call} was made to fail");
            let fault = Fault::Unreachable { service: "simulation", detail };
            let fate = match failing {
                Failing::Refuses => Injection::Refuse(fault),
                Failing::LosesReplies => Injection::LoseReply(fault),
                Failing::Throttles => {
                    let retry_after = (self.roll(2) == 0).then(|| Duration::from_millis(self.roll(3000)));
                    Injection::Refuse(Fault::Throttled { service: "simulation", retry_after })
                }
                Failing::Dawdles(by) => {
                    self.witness.clock.sleep(*by).await;
                    continue;
                }
            };
            self.witness.note(|| format!("process {}: {call}: {fate:?}", self.process));
            return fate;
        }
        Injection::None
    }

    async fn after(&self) {
        self.travel().await;
    }
}
