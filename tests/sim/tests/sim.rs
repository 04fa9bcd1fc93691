//! The share of the simulation that every change is held against.

use everypage_sim::{
    campaign::{campaign, explain},
    mutants::Mutant,
    plan::Plan,
    story::run,
};

/// Seeds of every run; `./everypage dev sim --seeds 100000` runs more.
const SEEDS: u64 = 2000;

/// Seeds that failed once, each with what it found.
const FAILED_ONCE: [(u64, &str); 1] =
    [(206, "a slot given back twice, because the first reply was lost, freed its next holder's")];

#[test]
fn every_promise_holds_under_every_seed() {
    let outcome = campaign(0, SEEDS, None, 1, &|_| {});
    let failure = outcome.failures.first().map(|(seed, _)| explain(*seed, None));
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    println!("{} seeds, {} jobs, {} calls to models", outcome.runs, outcome.jobs, outcome.calls);
}

#[test]
fn seeds_that_failed_once_fail_no_more() {
    for (seed, what) in FAILED_ONCE {
        let verdict = run(&Plan::of(seed), None, false);
        assert_eq!(verdict.broken, Vec::<String>::new(), "seed {seed}: {what}");
    }
}

/// A suite that can't fail proves nothing.
#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        let outcome = campaign(0, SEEDS, Some(mutant), 1, &|_| {});
        let caught = outcome.failures.first();
        assert!(caught.is_some(), "{mutant:?} was not caught in {SEEDS} seeds: {}", mutant.what());
        println!("{mutant:?}: {} seeds, {caught:?}", outcome.runs);
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    for seed in [7, 8, 9] {
        let plan = Plan::of(seed);
        assert_eq!(run(&plan, None, true).story, run(&plan, None, true).story, "seed {seed}");
    }
}
