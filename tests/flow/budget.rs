//! Budgets of jobs and tenants: never overrun, whatever runs at once or dies, and nothing stays reserved.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    ids::{JobId, TenantId},
    job::Job,
    keys::record,
    money::MicroUsd,
    notices,
    ports::{clock::Clock, notifier::NoticeKind, records::Records},
    read::expense::Expenses,
    source::Source,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process},
    invariants,
};

use crate::sources;

/// What a call of the fake models costs.
const CALL: u64 = 1_000;

async fn expenses(harness: &Harness, id: &JobId) -> Expenses {
    let found = harness.records.get(&record::job_expenses(id)).await.unwrap().unwrap();
    let mut expenses: Expenses = serde_json::from_str(&found.draft.body).unwrap();
    expenses.expire(harness.clock.now());
    expenses
}

async fn finished(process: &Process, pages: u32) -> Job {
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    process.finish(&id).await
}

#[tokio::test(start_paused = true)]
async fn pages_beyond_the_budget_keep_their_own_text_and_say_why() {
    let harness = Harness::new(&[("BUDGET_USD", "0.05")]);
    let process = harness.start("a");
    let job = finished(&process, 60).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 60).await;
    let document = process.result(&job).await;
    let read = sources(&document).iter().filter(|source| **source == Source::AI).count() as u64;
    assert!((20..60).contains(&read), "{read} pages were read");
    let spent = document.metadata.cost_micro_usd;
    assert!(spent <= MicroUsd(50_000), "{spent:?}");
    let expenses = expenses(&harness, &job.id).await;
    assert_eq!((expenses.spent, expenses.reservations.len()), (spent, 0));
    let given_up = document.pages.iter().filter_map(|page| page.fallback_reason.as_deref());
    let given_up: Vec<&str> = given_up.collect();
    assert_eq!(given_up.len() as u64, 60 - read);
    assert!(given_up.iter().all(|reason| *reason == "the budget of 0.05 USD is used up"), "{given_up:?}");
    let notices = notices::all(&process.app.store, 100).await.unwrap();
    let about: Vec<_> = notices.iter().filter(|notice| notice.kind == NoticeKind::Budget).collect();
    assert_eq!(about.len(), 1, "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tenants_budget_is_shared_by_its_jobs() {
    let harness = Harness::new(&[("TENANT_BUDGET_USD", "0.04")]);
    let process = harness.start("a");
    let (first, second) = futures::future::join(finished(&process, 30), finished(&process, 31)).await;
    let mut spent = MicroUsd::default();
    for job in [&first, &second] {
        spent += process.result(job).await.metadata.cost_micro_usd;
    }
    assert!(spent <= MicroUsd(40_000) && spent >= MicroUsd(20_000), "{spent:?}");
    let tenant = TenantId::new("local");
    let month = harness.clock.now().strftime("%Y-%m").to_string();
    let found = harness.records.get(&record::tenant_expenses(&tenant, &month)).await.unwrap().unwrap();
    let expenses: Expenses = serde_json::from_str(&found.draft.body).unwrap();
    assert_eq!((expenses.spent, expenses.reservations.len()), (spent, 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_moment_leaves_nothing_reserved_and_nothing_overspent() {
    for moment in 1..=12 {
        let harness = Harness::new(&[("BUDGET_USD", "0.70"), ("WORKER_CONCURRENCY", "12")]);
        let clock: Arc<dyn Clock> = harness.clock.clone();
        harness.vision.set_behaviour(|target, page| {
            Reply::AnswerAfter(Duration::from_millis(150 + u64::from(page % 5) * 80), read_by(target, page))
        });
        let first = harness.start("a");
        let id = first.submit(&FakeDocument::graphics(40)).await.unwrap().job.id;
        first.kill_after(&id, Duration::from_millis(90 * moment)).await;
        drop(first);
        let second = harness.start("b");
        let job = second.finish(&id).await;
        invariants::result_is_whole(&second.app, &job, 40).await;
        // Reservations of the killed process end by themselves.
        clock.sleep(Duration::from_secs(600)).await;
        let expenses = expenses(&harness, &job.id).await;
        assert!(expenses.reservations.is_empty(), "{expenses:?}");
        assert!(expenses.spent <= MicroUsd(700_000), "{expenses:?}");
        let recorded = second.result(&job).await.metadata.cost_micro_usd;
        assert!(recorded <= expenses.spent && recorded >= MicroUsd(CALL), "{recorded:?} of {expenses:?}");
    }
}
