//! Many seeds, on every core.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{mutants::Mutant, plan::Plan, story::run};

#[derive(Default)]
pub struct Outcome {
    pub runs: u64,
    pub jobs: usize,
    pub calls: usize,
    /// How often each sort of trouble really struck.
    pub struck: BTreeMap<String, usize>,
    /// Seeds that failed, with what was broken first.
    pub failures: Vec<(u64, String)>,
}

/// Runs `seeds` from `first` on; stops early once `enough` have failed. `told` hears of each run.
pub fn campaign(
    first: u64,
    seeds: u64,
    mutant: Option<Mutant>,
    enough: usize,
    told: &(dyn Fn(u64) + Sync),
) -> Outcome {
    let next = AtomicU64::new(first);
    let outcome = Mutex::new(Outcome::default());
    let stop = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    let verdict = run(&Plan::of(seed), mutant, false);
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    outcome.runs += 1;
                    outcome.jobs += verdict.jobs;
                    outcome.calls += verdict.calls;
                    for (what, times) in verdict.struck {
                        *outcome.struck.entry(what).or_default() += times;
                    }
                    if let Some(broken) = verdict.broken.first() {
                        outcome.failures.push((seed, broken.clone()));
                        stop.fetch_or(outcome.failures.len() >= enough, Ordering::Relaxed);
                    }
                    drop(outcome);
                    told(seed);
                }
            });
        }
    });
    let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.failures.sort();
    outcome
}

/// For people: how to see it again, and the least that goes wrong.
pub fn explain(seed: u64, mutant: Option<Mutant>) -> String {
    let (plan, verdict) = crate::shrink::shrink(&Plan::of(seed), mutant);
    let with = mutant.map(|mutant| format!(" --mutant {mutant:?}")).unwrap_or_default();
    format!(
        "seed {seed} fails; again: ./everypage dev sim --seed {seed}{with}\nshrunk to\n{plan}\n{}\n\n{}\n",
        verdict.story.join("\n"),
        verdict.broken.join("\n")
    )
}
