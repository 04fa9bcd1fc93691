//! Many seeds, on every core.

use std::{
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::{
    mutants::Mutant,
    plan::Plan,
    story::{Verdict, run},
};

#[derive(Default)]
pub struct Outcome {
    pub runs: u64,
    pub jobs: usize,
    pub calls: usize,
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
    let (runs, jobs, calls) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
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
                    let verdict = verdict_of(seed, mutant);
                    runs.fetch_add(1, Ordering::Relaxed);
                    jobs.fetch_add(verdict.jobs, Ordering::Relaxed);
                    calls.fetch_add(verdict.calls, Ordering::Relaxed);
                    if let Some(broken) = verdict.broken.first() {
                        let mut failures = failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        failures.push((seed, broken.clone()));
                        stop.fetch_or(failures.len() >= enough, Ordering::Relaxed);
                    }
                    told(seed);
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    failures.sort();
    Outcome { runs: runs.into_inner(), jobs: jobs.into_inner(), calls: calls.into_inner(), failures }
}

/// A run that panics has failed like any other.
fn verdict_of(seed: u64, mutant: Option<Mutant>) -> Verdict {
    catch_unwind(|| run(&Plan::of(seed), mutant, false)).unwrap_or_else(|_| Verdict {
        broken: vec!["the run panicked".into()],
        story: vec![],
        jobs: 0,
        calls: 0,
    })
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
