//! Every port call of the whole flow in turn: refused, done with its reply lost, and out for good;
//! the process killed there; everything delivered twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use everypage_core::{
    domain::{event::Aggregate, ids::JobId, job::State},
    ports::clock::Clock,
    store::{jobs, trail},
    usecases::relay,
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

/// One page fails over, one is text: the flow with everything in it.
fn harness(faults: std::sync::Arc<Faults>, twice: bool) -> Harness {
    let harness = Harness::with_faults(&[("WORKER_CONCURRENCY", "2"), ("RANGE_PAGES", "2")], faults, twice);
    harness.vision.set_behaviour(|target, page| match (target.model.as_str(), page) {
        ("gpt-5.4", 4) => Reply::down(),
        _ => Reply::AnswerAfter(Duration::from_millis(300), read_by(target, page)),
    });
    harness
}

/// Submits until accepted, as a caller who gets an error would.
async fn submit(process: &Process) -> JobId {
    let mut document = FakeDocument::graphics(PAGES);
    document.pages[0].reason = everypage_core::domain::document::Reason::Text;
    document.password = Some("secret word".into());
    for _ in 0..10 {
        match process.submit_with(&document, |_| {}, Some("secret word"), None).await {
            Ok(submitted) => return submitted.job.id,
            Err(_) => process.app.clock.sleep(Duration::from_secs(1)).await,
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

/// What holds of every run, however it went.
async fn check(harness: &Harness, process: &Process, id: &JobId, what: &str) {
    let job = process.job(id).await;
    assert_eq!(job.state, State::Audited, "{what}: {:?}", job.failure);
    assert!(job.finished_at.unwrap() <= job.deadline + Duration::from_secs(1), "{what}: over its deadline");
    invariants::result_is_whole(&process.app, &job, PAGES).await;
    // What is left in the queue is worked off, and then nothing is held.
    process.work_for(Duration::from_secs(400)).await;
    assert!(harness.queue.is_empty(), "{what}: messages left");
    let job = process.job(id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let _ = relay::relay(&process.app, &process.app.node).await;
    let _ = relay::relay(&process.app, "a").await;
    let trail = trail::read(&process.app, &Aggregate::Job(id.clone())).await.unwrap();
    invariants::published_in_order(&harness.bus.events(), &trail);
    assert_eq!(jobs::open(&process.app).await.unwrap().len(), 0, "{what}: jobs left open");
}

/// How many port calls a run without faults makes.
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
    assert!(calls > 50, "only {calls} port calls: is the whole flow walked?");
    let mut struck = std::collections::BTreeSet::new();
    for at in 0..calls {
        let harness = harness(Faults::at(at, times, mode), false);
        let (process, id) = run(&harness).await;
        let what = format!("{mode:?} of call {at} ({:?})", harness.faults.failed_call());
        struck.extend(harness.faults.failed_call());
        check(&harness, &process, &id, &what).await;
        invariants::nothing_is_held(&harness.records, harness.clock.now());
        // Page 4 is asked for twice by its failover. A fault of the breaker's store may cost a call.
        invariants::paid_once(&harness.vision, 2);
    }
    println!("{calls} calls walked, {mode:?} × {times}: {struck:?}");
    assert!(struck.len() >= 10, "{struck:?}");
}

#[tokio::test(start_paused = true)]
async fn any_one_call_refused() {
    walk(1, Mode::Refuse).await;
}

#[tokio::test(start_paused = true)]
async fn any_one_reply_lost() {
    walk(1, Mode::LoseReply).await;
}

#[tokio::test(start_paused = true)]
async fn any_three_calls_in_a_row_refused() {
    walk(3, Mode::Refuse).await;
}

#[tokio::test(start_paused = true)]
async fn everything_delivered_twice_and_any_one_reply_lost() {
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

/// The process dies between any two port calls: all that it held in memory is gone.
#[tokio::test(start_paused = true)]
async fn killed_at_any_call_and_started_again() {
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
        // The caller was never answered, or was: asking again gives the same job either way.
        let id = submit(&second).await;
        second.finish(&id).await;
        assert!(seconds(harness.clock.as_ref()) < 302.0, "{what}");
        check(&harness, &second, &id, &what).await;
        invariants::nothing_is_held(&harness.records, harness.clock.now());
        // Pages in flight when it died may be asked for once more; no stored one is.
        invariants::paid_once(&harness.vision, 1 + 2);
    }
}
