//! Runs many seeds, on every core.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{broken_variants::BrokenVariant, run::run, run_plan::RunPlan};

#[derive(Default)]
pub struct Outcome {
    pub runs: u64,
    pub jobs: usize,
    pub calls: usize,
    /// How often each kind of fault occurred.
    pub fault_counts: BTreeMap<String, usize>,
    /// Seeds that failed, each with the first broken invariant.
    pub failures: Vec<(u64, String)>,
}

/// Runs `seeds` seeds from `first` on; stops once `max_failures` have failed. Calls `on_run` after each.
pub fn campaign(
    first: u64,
    seeds: u64,
    variant: Option<BrokenVariant>,
    max_failures: usize,
    on_run: &(dyn Fn(u64) + Sync),
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
                    let verdict = run(&RunPlan::from_seed(seed), variant, false);
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    outcome.runs += 1;
                    outcome.jobs += verdict.jobs;
                    outcome.calls += verdict.calls;
                    for (what, times) in verdict.fault_counts {
                        *outcome.fault_counts.entry(what).or_default() += times;
                    }
                    if let Some(broken) = verdict.broken.first() {
                        outcome.failures.push((seed, broken.clone()));
                        stop.fetch_or(outcome.failures.len() >= max_failures, Ordering::Relaxed);
                    }
                    drop(outcome);
                    on_run(seed);
                }
            });
        }
    });
    let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.failures.sort();
    outcome
}

/// The report of a failing seed: the command that repeats it, and the shrunk plan with its log.
pub fn explain(seed: u64, variant: Option<BrokenVariant>) -> String {
    let (plan, verdict) = crate::shrink::shrink(&RunPlan::from_seed(seed), variant);
    let with = variant.map(|variant| format!(" --broken-variant {variant:?}")).unwrap_or_default();
    format!(
        "seed {seed} fails; run it again with ./everypage dev sim --seed {seed}{with}\nshrunk to\n{plan}\n{}\n\n{}\n",
        verdict.log.join("\n"),
        verdict.broken.join("\n")
    )
}
