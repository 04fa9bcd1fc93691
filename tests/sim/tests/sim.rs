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
const FAILED_ONCE: [(u64, &str); 10] = [
    (206, "a slot given back twice, because the first reply was lost, freed its next holder's"),
    (1151, "a document that slow storage kept from being opened failed at its deadline"),
    (1872, "a slot whose lease slow storage had used up was called with"),
    (9160, "a page read while the result was being made was in no version of it, and no heal brought it in"),
    (
        10248,
        "a throttled store that asked for short rests used up the tries; redriven, the document wanted its password",
    ),
    (590, "a renewal dropped on its way made a page's answer be refused"),
    (1380, "the same with nothing else going wrong"),
    (5558, "the same, which left the page's lease held"),
    (245, "a plan that was given more time just as its time was up was ended all the same"),
    (28352, "a job failed and its process died before the dead letter was written: nobody could redrive it"),
];

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
        // Some failed before plans had all of today's troubles in them.
        for plan in [Plan::first_of(seed), Plan::second_of(seed), Plan::third_of(seed), Plan::of(seed)] {
            let verdict = run(&plan, None, false);
            assert_eq!(verdict.broken, Vec::<String>::new(), "seed {seed}: {what}");
        }
    }
}

/// The first seed that catches each; `./everypage dev sim --mutants` finds them again.
const CAUGHT_BY: [(Mutant, u64); 21] = [
    (Mutant::NoFencing, 3),
    (Mutant::UnconditionalFinalize, 23),
    (Mutant::UnconditionalSlots, 5),
    (Mutant::UnleasedSlots, 31),
    (Mutant::PublishedBeforeStored, 0),
    (Mutant::UnpublishedEvents, 31),
    (Mutant::BreakerCountsEveryPage, 63),
    (Mutant::BreakerPerProcess, 725),
    (Mutant::ResultsOverwritten, 23),
    (Mutant::MessagesForgotten, 12),
    (Mutant::DonePagesForgotten, 3),
    (Mutant::DeadlineForgotten, 4),
    (Mutant::TrailRewritten, 0),
    (Mutant::PasswordsKept, 8),
    (Mutant::PagesSwapped, 1),
    (Mutant::NoRetries, 4),
    (Mutant::SlotsKept, 0),
    (Mutant::HalfOpenLetsAllThrough, 409),
    (Mutant::FallbackTextLost, 0),
    (Mutant::UnconditionalAccounts, 282),
    (Mutant::PaymentsWithoutKeys, 6),
];

/// A suite that can't fail proves nothing.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(CAUGHT_BY.map(|(mutant, _)| mutant), Mutant::ALL);
    for (mutant, seed) in CAUGHT_BY {
        let verdict = run(&Plan::of(seed), Some(mutant), false);
        assert!(!verdict.broken.is_empty(), "{mutant:?} is not caught by seed {seed}: {}", mutant.what());
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    for seed in [7, 8, 9] {
        let plan = Plan::of(seed);
        assert_eq!(run(&plan, None, true).story, run(&plan, None, true).story, "seed {seed}");
    }
}
