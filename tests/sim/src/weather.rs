//! What the storage of a run does to the calls of one process.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::ports::{Fault, clock::Clock};
use everypage_testkit::faulty::{Fate, Interference};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::Notify;

use crate::{
    plan::Plan,
    trouble::{Failing, Trouble},
    witness::Witness,
};

/// A call and its reply take up to this each, so that a kill falls between any two steps.
const ON_THE_WAY: u64 = 8;

pub struct Weather {
    plan: Arc<Plan>,
    witness: Arc<Witness>,
    process: usize,
    state: Mutex<State>,
    /// Told when the process has made the call that it dies at.
    dies: Arc<Notify>,
}

struct State {
    dice: StdRng,
    calls: u64,
    /// Has lived before: it dies at a call of its first life only.
    reborn: bool,
}

impl Weather {
    pub fn new(
        plan: &Arc<Plan>,
        witness: &Arc<Witness>,
        process: usize,
        life: u64,
        dies: Arc<Notify>,
    ) -> Self {
        let dice = StdRng::seed_from_u64(plan.seed ^ ((process as u64) << 48) ^ (life << 56));
        let state = Mutex::new(State { dice, calls: 0, reborn: life > 0 });
        Self { plan: plan.clone(), witness: witness.clone(), process, state, dies }
    }

    fn roll(&self, bound: u64) -> u64 {
        self.lock().dice.random_range(0..bound.max(1))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn dies_now(&self) -> bool {
        let mut state = self.lock();
        state.calls += 1;
        let (number, reborn) = (state.calls - 1, state.reborn);
        drop(state);
        self.plan.troubles.iter().any(|trouble| {
            matches!(trouble, Trouble::KillAtCall { process, call, .. }
                if *process == self.process && *call == number && !reborn)
        })
    }

    async fn travel(&self) {
        let time = Duration::from_millis(self.roll(ON_THE_WAY));
        self.witness.clock.sleep(time).await;
    }
}

#[async_trait]
impl Interference for Weather {
    async fn before(&self, call: &'static str) -> Fate {
        if self.dies_now() {
            self.dies.notify_one();
            std::future::pending::<()>().await;
        }
        self.travel().await;
        for trouble in &self.plan.troubles {
            let Trouble::Storage { port, window, one_in, failing } = trouble else { continue };
            if !window.covers(self.witness.now()) || !port.has(call) || self.roll(*one_in) != 0 {
                continue;
            }
            let detail = format!("{call} was made to fail");
            let fault = Fault::Unreachable { service: "simulation", detail };
            let fate = match failing {
                Failing::Refuses => Fate::Refused(fault),
                Failing::LosesReplies => Fate::ReplyLost(fault),
                Failing::Throttles => {
                    let retry_after = (self.roll(2) == 0).then(|| Duration::from_millis(self.roll(3000)));
                    Fate::Refused(Fault::Throttled { service: "simulation", retry_after })
                }
                Failing::Dawdles(by) => {
                    self.witness.clock.sleep(*by).await;
                    continue;
                }
            };
            self.witness.note(|| format!("process {}: {call}: {fate:?}", self.process));
            return fate;
        }
        Fate::Happens
    }

    async fn after(&self) {
        self.travel().await;
    }
}
