//! The part of the simulation that `./test` runs.

use everypage_sim::{
    broken_variants::BrokenVariant,
    campaign::{campaign, explain},
    run::run,
    run_plan::RunPlan,
};

/// Number of seeds; `./everypage dev sim --seeds 100000` runs more.
const SEEDS: u64 = 2000;

/// Seeds that failed once, each with the defect that it found.
const FIXED_SEEDS: [(u64, &str); 11] = [
    (206, "a slot released twice, because the first reply was lost, released its next holder's slot"),
    (1151, "a document that could not be opened in time because storage was slow failed at its deadline"),
    (1872, "a model was called with a slot whose lease had expired while storage was slow"),
    (9160, "a page read while the result was being published was in no version of it, not even after a heal"),
    (
        10248,
        "a throttled store with a short retry_after used up the retries; after the redrive the document needed its password",
    ),
    (590, "a lease renewal that was dropped made the store refuse a page's answer"),
    (1380, "a dropped lease renewal, without any other fault"),
    (5558, "a dropped lease renewal left the page's lease held"),
    (245, "a job whose deadline was extended just as it passed was ended"),
    (
        28352,
        "a job failed and its process was killed before the dead letter was stored: it could not be redriven",
    ),
    (8000716, "a process whose first heartbeat failed was killed, and the sweep did not know its events"),
];

#[test]
fn every_invariant_holds_for_every_seed() {
    let outcome = campaign(0, SEEDS, None, 1, &|_| {});
    let failure = outcome.failures.first().map(|(seed, _)| explain(*seed, None));
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    println!("{} seeds, {} jobs, {} calls to models", outcome.runs, outcome.jobs, outcome.calls);
}

#[test]
fn seeds_that_failed_once_pass_now() {
    for (seed, defect) in FIXED_SEEDS {
        // Some of them failed under an earlier version of the plan.
        for plan in [
            RunPlan::from_seed_v1(seed),
            RunPlan::from_seed_v2(seed),
            RunPlan::from_seed_v3(seed),
            RunPlan::from_seed(seed),
        ] {
            let verdict = run(&plan, None, false);
            assert_eq!(verdict.broken, Vec::<String>::new(), "seed {seed}: {defect}");
        }
    }
}

/// The first seed that catches each variant, as `./everypage dev sim --broken-variants` prints it.
const CAUGHT_BY: [(BrokenVariant, u64); 20] = [
    (BrokenVariant::NoFencing, 3),
    (BrokenVariant::UnconditionalFinalize, 54),
    (BrokenVariant::UnconditionalSlots, 5),
    (BrokenVariant::UnleasedSlots, 678),
    (BrokenVariant::PublishedBeforeStored, 0),
    (BrokenVariant::UnpublishedEvents, 31),
    (BrokenVariant::BreakerPerProcess, 1381),
    (BrokenVariant::ResultsOverwritten, 50),
    (BrokenVariant::MessagesDeletedOnReceive, 12),
    (BrokenVariant::DonePagesReclaimable, 3),
    (BrokenVariant::LongTimersNeverFire, 4),
    (BrokenVariant::TrailRewritten, 0),
    (BrokenVariant::PasswordsKept, 8),
    (BrokenVariant::PagesSwapped, 1),
    (BrokenVariant::NoRetries, 5),
    (BrokenVariant::SlotsNeverReleased, 42),
    (BrokenVariant::HalfOpenLetsAllThrough, 287),
    (BrokenVariant::FallbackTextLost, 0),
    (BrokenVariant::UnconditionalAccounts, 282),
    (BrokenVariant::PaymentsWithoutKeys, 6),
];

/// A suite that can't fail proves nothing.
#[test]
fn every_broken_variant_is_caught() {
    assert_eq!(CAUGHT_BY.map(|(variant, _)| variant), BrokenVariant::ALL);
    for (variant, seed) in CAUGHT_BY {
        let verdict = run(&RunPlan::from_seed(seed), Some(variant), false);
        assert!(
            !verdict.broken.is_empty(),
            "{variant:?} is not caught by seed {seed}: {}",
            variant.description()
        );
    }
}

#[test]
fn a_run_is_deterministic() {
    for seed in [7, 8, 9] {
        let plan = RunPlan::from_seed(seed);
        assert_eq!(run(&plan, None, true).log, run(&plan, None, true).log, "seed {seed}");
    }
}
