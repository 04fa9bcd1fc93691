//! The countdown of a job's pages: each page counts once, and the last one ends the wait.

use std::{collections::BTreeSet, time::Duration};

use everypage_core::{
    dead_letters::fail::fail,
    ids::JobId,
    job::{Failure, State},
    keys::record,
    ports::{
        clock::Clock,
        records::{Batch, Change, Records, When},
    },
    read::{
        countdown::{Countdown, Run},
        countdowns,
        send::{self, RangeGroup},
    },
    recover::{redrive::redrive, sweep::sweep},
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process, seconds},
    invariants::{self, page},
};

/// What is left of each countdown of a job: of the job itself, then of its ranges.
async fn left(harness: &Harness, id: &JobId) -> Vec<usize> {
    let listed = harness.records.list(&record::job_partition(id), "countdown", None, 100).await.unwrap();
    let countdown = |body: &str| serde_json::from_str::<Countdown>(body).unwrap();
    listed.items.iter().map(|item| countdown(&item.draft.body).left.len()).collect()
}

/// Prepares the document and sends its pages, as a flow does that then dies.
async fn sent(process: &Process, document: &FakeDocument) -> JobId {
    let id = process.submit(document).await.unwrap().job.id;
    let prepared = async { process.driver.drive(&id).await };
    let clock = process.app.store.clock.clone();
    let drive = everypage_core::time::within(clock.as_ref(), Duration::from_millis(500), prepared).await;
    assert!(drive.is_none() && process.job(&id).await.state == State::Approved);
    id
}

#[tokio::test(start_paused = true)]
async fn pages_that_settle_at_the_same_moment_count_once_each() {
    let harness = Harness::new(&[("RANGE_PAGES", "4"), ("WORKER_CONCURRENCY", "10")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(1), read_by(target, page)));
    let process = harness.start("a");
    let id = sent(&process, &FakeDocument::graphics(10)).await;
    assert_eq!(left(&harness, &id).await, [3, 4, 4, 2]);
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(left(&harness, &id).await, [0, 0, 0, 0]);
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 10);
}

/// The workers are in another process, whose flow is not the one that waits.
#[tokio::test(start_paused = true)]
async fn a_flow_that_was_not_notified_reads_the_countdown() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10m")]);
    let (driver, worker) = (harness.start("driver"), harness.start("worker"));
    let id = driver.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = tokio::select! {
        biased;
        job = driver.driver.drive(&id) => job.unwrap(),
        () = worker.driver.work() => unreachable!("it runs until it is dropped"),
    };
    invariants::succeeded(&job);
    assert_eq!(driver.result(&job).await.metadata.final_ai_pages, 3);
    assert!(seconds(harness.clock.as_ref()) < 60.0, "it did not wait for the deadline");
}

#[tokio::test(start_paused = true)]
async fn the_sweep_continues_a_flow_whose_pages_are_settled() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    sent(&process, &FakeDocument::graphics(3)).await;
    harness.clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(sweep(&process.app.recovery).await.reminded, 0, "its pages are not settled");
    process.work_for(Duration::from_secs(20)).await;
    assert_eq!(sweep(&process.app.recovery).await.reminded, 1);
}

/// A page that an earlier version settled is in no transaction with its countdown. Its message is delivered again.
#[tokio::test(start_paused = true)]
async fn the_message_of_a_settled_page_counts_it() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = sent(&process, &FakeDocument::graphics(2)).await;
    process.work_for(Duration::from_secs(20)).await;
    let job = process.job(&id).await;
    assert!(countdowns::is_complete(&process.app.store, &job).await.unwrap());
    let run = Run::of(&job).unwrap();
    for (key, left) in [(record::countdown(&id), 1), (record::range_countdown(&id, page(1)), 2)] {
        let found = harness.records.get(&key).await.unwrap().unwrap();
        let body = serde_json::to_string(&Countdown::new(run, BTreeSet::from([page(left)]))).unwrap();
        let draft = everypage_core::ports::records::Draft::new(key, body);
        let change = Change::Put { draft, when: When::Version(found.version) };
        harness.records.write(&Batch { stamp: format!("back {left}"), changes: vec![change] }).await.unwrap();
    }
    assert!(!countdowns::is_complete(&process.app.store, &job).await.unwrap());
    let calls = harness.vision.calls().len();
    send::send(&process.app.reader, &job, RangeGroup { first: page(1), last: page(2) }).await.unwrap();
    process.work_for(Duration::from_secs(20)).await;
    assert!(countdowns::is_complete(&process.app.store, &job).await.unwrap());
    assert_eq!(harness.vision.calls().len(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_counts_down_again_and_reads_no_page_twice() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = sent(&process, &FakeDocument::graphics(3)).await;
    process.work_for(Duration::from_secs(20)).await;
    let calls = harness.vision.calls().len();
    let broken = Failure { code: "step_failed".into(), reason: "killed".into() };
    fail(&process.app.dead_letters, &id, broken).await.unwrap();
    let dead_letter = everypage_core::dead_letters::waiting(&process.app.store, 1).await.unwrap().remove(0);
    redrive(&process.app.recovery, &dead_letter.value.id, "ann", None).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(
        (process.result(&job).await.metadata.final_ai_pages, harness.vision.calls().len()),
        (3, calls)
    );
}
