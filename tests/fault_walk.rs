//! Every port call of the whole flow in turn: refused, refused three times, or done with its reply lost;
//! the process killed there; every message delivered twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use everypage_core::{
    document::Reason,
    event::Aggregate,
    events::trail,
    ids::JobId,
    job::{State, jobs},
    notify::relay,
    ports::clock::Clock,
};
use everypage_testkit::{
    faulty::{Faults, Mode},
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process, seconds},
    invariants,
};

const PAGES: u32 = 4;

/// One page fails over and one is text only, so that the flow takes every kind of step.
fn harness(faults: std::sync::Arc<Faults>, twice: bool) -> Harness {
    let harness = Harness::with_faults(&[("WORKER_CONCURRENCY", "2"), ("RANGE_PAGES", "2")], faults, twice);
    harness.vision.set_behaviour(|target, page| match (target.model.as_str(), page) {
        ("gpt-5.4", 4) => Reply::down(),
        _ => Reply::AnswerAfter(Duration::from_millis(300), read_by(target, page)),
    });
    harness
}

/// Submits until the document is accepted, like a client that retries.
async fn submit(process: &Process) -> JobId {
    let mut document = FakeDocument::graphics(PAGES);
    document.pages[0].reason = Reason::Text;
    document.password = Some("secret word".into());
    for _ in 0..10 {
        match process.submit_with(&document, |_| {}, Some("secret word"), None).await {
            Ok(submitted) => return submitted.job.id,
            Err(_) => process.app.store.clock.sleep(Duration::from_secs(1)).await,
        }
    }
    panic!("never accepted");
}

async fn run(harness: &Harness) -> (Process, JobId) {
    let process = harness.start("a");
    let id = submit(&process).await;
    process.finish(&id).await;
    (process, id)
}

/// What must hold of every run.
async fn check(harness: &Harness, process: &Process, id: &JobId, what: &str) {
    let job = process.job(id).await;
    assert_eq!(job.state, State::Audited, "{what}: {:?}", job.failure);
    assert!(job.finished_at.unwrap() <= job.deadline + Duration::from_secs(1), "{what}: after its deadline");
    invariants::result_is_whole(&process.app, &job, PAGES).await;
    // The remaining messages are settled, and then no lease is held.
    process.work_for(Duration::from_secs(400)).await;
    assert!(harness.queue.is_empty(), "{what}: messages are left");
    let job = process.job(id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let _ = relay::relay(&process.app.publisher, &process.app.store.node).await;
    let _ = relay::relay(&process.app.publisher, "a").await;
    let trail = trail::read(&process.app.store, &Aggregate::Job(id.clone())).await.unwrap();
    invariants::published_in_order(&harness.bus.events(), &trail);
    assert_eq!(jobs::open(&process.app.store).await.unwrap().len(), 0, "{what}: jobs are still open");
}

/// The number of port calls of a run without faults.
async fn calls() -> usize {
    let harness = harness(Faults::none(), false);
    let (process, id) = run(&harness).await;
    let calls = harness.faults.calls();
    check(&harness, &process, &id, "no fault").await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    invariants::paid_once(&harness.vision, 1);
    calls
}

async fn walk(times: usize, mode: Mode) {
    let calls = calls().await;
    assert!(calls > 50, "only {calls} port calls: is the whole flow covered?");
    let mut failed_calls = std::collections::BTreeSet::new();
    for at in 0..calls {
        let harness = harness(Faults::at(at, times, mode), false);
        let (process, id) = run(&harness).await;
        let what = format!("{mode:?} of call {at} ({:?})", harness.faults.failed_call());
        failed_calls.extend(harness.faults.failed_call());
        check(&harness, &process, &id, &what).await;
        invariants::nothing_is_held(&harness.records, harness.clock.now());
        // Page 4 is called for twice by its failover. A fault of the breaker's store may cost one more call.
        invariants::paid_once(&harness.vision, 2);
    }
    println!("{calls} calls walked, {mode:?} × {times}: {failed_calls:?}");
    assert!(failed_calls.len() >= 10, "{failed_calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_survives_any_refused_call() {
    walk(1, Mode::Refuse).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_survives_any_lost_reply() {
    walk(1, Mode::LoseReply).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_survives_any_three_refused_calls_in_a_row() {
    walk(3, Mode::Refuse).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_survives_double_delivery_with_any_lost_reply() {
    let calls = {
        let harness = harness(Faults::none(), true);
        let (process, id) = run(&harness).await;
        let calls = harness.faults.calls();
        check(&harness, &process, &id, "twice").await;
        invariants::paid_once(&harness.vision, 1);
        calls
    };
    for at in 0..calls {
        let harness = harness(Faults::at(at, 1, Mode::LoseReply), true);
        let (process, id) = run(&harness).await;
        let what = format!("twice, reply of call {at} ({:?}) lost", harness.faults.failed_call());
        check(&harness, &process, &id, &what).await;
        invariants::paid_once(&harness.vision, 2);
    }
}

/// The process is killed between any two port calls, and its memory is lost.
#[tokio::test(start_paused = true)]
async fn a_job_survives_a_kill_at_any_call() {
    let calls = calls().await;
    for at in 0..calls {
        // A call that never returns is a process that stops there.
        let harness = harness(Faults::stop_at(at), false);
        let first = harness.start("a");
        let killed = async {
            let id = submit(&first).await;
            first.finish(&id).await;
        };
        let stopped = harness.faults.stopped();
        tokio::select! { () = killed => {}, () = stopped => {} }
        drop(first);
        harness.faults.resume();

        let second = harness.start("b");
        let what = format!("killed at call {at}");
        // Whether or not the client got a reply, submitting again gives the same job.
        let id = submit(&second).await;
        second.finish(&id).await;
        assert!(seconds(harness.clock.as_ref()) < 302.0, "{what}");
        check(&harness, &second, &id, &what).await;
        invariants::nothing_is_held(&harness.records, harness.clock.now());
        // Pages in flight at the kill may be called for once more; stored ones are not.
        invariants::paid_once(&harness.vision, 1 + 2);
    }
}
