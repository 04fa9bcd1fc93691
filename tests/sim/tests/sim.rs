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
const FIXED_SEEDS: [(u64, &str); 14] = [
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
    (1511, "a worker whose lease had expired while storage was slow paid for a page that another had read"),
    (6706, "the message of a worker that published late pages for long was delivered again"),
    (
        5981,
        "an empty group of seats was deleted and made again, and a slow release took the seat of another job",
    ),
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
            RunPlan::from_seed_v4(seed),
            RunPlan::from_seed_v5(seed),
            RunPlan::from_seed_v6(seed),
            RunPlan::from_seed_v7(seed),
            RunPlan::from_seed(seed),
        ] {
            let verdict = run(&plan, None, false);
            assert_eq!(verdict.broken, Vec::<String>::new(), "seed {seed}: {defect}");
        }
    }
}

/// A seed that catches each variant, as `./everypage dev sim --broken-variants` prints it, and what it reports.
const CAUGHT_BY: [(BrokenVariant, u64, &str); 39] = [
    (BrokenVariant::NoFencing, 3, "settled again"),
    (BrokenVariant::UnconditionalFinalize, 23, "is not stored"),
    (BrokenVariant::UnconditionalSlots, 15, "over the limit"),
    (BrokenVariant::UnleasedSlots, 44, "still leased"),
    (BrokenVariant::PublishedBeforeStored, 0, "is not stored"),
    (BrokenVariant::UnpublishedEvents, 243, "was never published"),
    (BrokenVariant::BreakerPerProcess, 5, "after it had failed"),
    (BrokenVariant::ResultsOverwritten, 23, "missing or was changed"),
    (BrokenVariant::MessagesDeletedOnReceive, 12, "still leased"),
    (BrokenVariant::DonePagesReclaimable, 8, "paid for again"),
    (BrokenVariant::LongTimersNeverFire, 4, "never ended"),
    (BrokenVariant::TrailRewritten, 0, "event 2 was changed"),
    (BrokenVariant::PasswordsKept, 8, "a password was not deleted"),
    (BrokenVariant::PagesSwapped, 1, "has the text"),
    (BrokenVariant::NoRetries, 5, "was taken"),
    (BrokenVariant::SlotsNeverReleased, 0, "still leased"),
    (BrokenVariant::HalfOpenLetsAllThrough, 5, "was half open"),
    (BrokenVariant::FallbackTextLost, 0, "text not available"),
    (BrokenVariant::UnconditionalAccounts, 111, "is not stored"),
    (BrokenVariant::UnconditionalBudgets, 11, "settled in its budget"),
    (BrokenVariant::ReservationsKept, 9, "is still reserved"),
    (BrokenVariant::PaymentsWithoutKeys, 6, "was taken"),
    (BrokenVariant::GivesUpEarly, 66, "could have read it"),
    (BrokenVariant::WaitsPastDeadline, 66, "could have read it"),
    (BrokenVariant::SlotsPerProcess, 15, "over the limit"),
    (BrokenVariant::HedgesPerProcess, 61, "calls were doubled"),
    (BrokenVariant::LoserSettles, 42, "had answered first"),
    (BrokenVariant::LostPageCallsDropped, 109, "was answered and not recorded"),
    (BrokenVariant::WaitingCallsDropped, 88, "is in no result"),
    (BrokenVariant::RoundCallsDropped, 11, "was answered and not recorded"),
    (BrokenVariant::UnleasedProbes, 5, "probes while"),
    (BrokenVariant::VisibilityNotExtended, 34, "delivered again while in work"),
    (BrokenVariant::LatePagesLeft, 93, "is in no version"),
    (BrokenVariant::NoticesLost, 7, "no person was notified"),
    (BrokenVariant::PausesIgnored, 1, "called during a pause"),
    (BrokenVariant::CallsRecordedTwice, 66, "was recorded 2 times"),
    (BrokenVariant::SeatsKept, 2, "a seat was not given back"),
    (BrokenVariant::LineNotListed, 2, "never ended"),
    (BrokenVariant::OthersFailuresKept, 3428, "although the model had answered"),
];

/// Seeds that are tried where a change of the code has moved what the recorded one finds.
const OTHER_SEEDS: u64 = 1000;

/// A suite that can't fail proves nothing.
#[test]
fn every_broken_variant_is_caught() {
    assert_eq!(CAUGHT_BY.map(|(variant, ..)| variant), BrokenVariant::ALL);
    for (variant, seed, message) in CAUGHT_BY {
        let is_caught = |seed: u64| {
            let broken = run(&RunPlan::from_seed(seed), Some(variant), false).broken;
            broken.iter().any(|broken| broken.contains(message))
        };
        assert!(
            std::iter::once(seed).chain(0..OTHER_SEEDS).any(is_caught),
            "{variant:?} is caught by none of {OTHER_SEEDS} seeds, with {message:?}: {}",
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
