//! Events as the state machine and the schedule send them, on in-memory adapters and virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use everypage_core::{dead_letters, notices, ports::clock::Clock};
use everypage_finalize::{Ended, handle};
use everypage_function::{ErrorName, FailedStep};
use everypage_testkit::pdf::{FakeDocument, FakePdf};
use everypage_tests::harness::{Harness, Process};
use serde_json::{Value, json};

async fn send(process: &Process, event: &str, job: &str) -> Result<Ended, FailedStep> {
    let mut event: Value = serde_json::from_str(event).unwrap();
    if event.get("job_id").is_some() {
        event["job_id"] = json!(job);
    }
    handle(&process.app, event).await
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_recorded_with_its_code_and_repeating_it_changes_nothing() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    for _ in 0..2 {
        let ended = send(&process, include_str!("../events/failed.json"), id.as_str()).await.unwrap();
        assert_eq!(ended.state, "FAILED");
    }
    assert_eq!(process.job(&id).await.failure.unwrap().code, "password_wrong");
    assert_eq!(dead_letters::waiting(&process.app.store, 10).await.unwrap().len(), 1);
    assert_eq!(notices::all(&process.app.store, 10).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_step_functions_itself_is_recorded() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    send(&process, include_str!("../events/timed-out.json"), id.as_str()).await.unwrap();
    assert!(process.job(&id).await.failure.unwrap().reason.contains("States.Timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_is_unchanged() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let ended = send(&process, include_str!("../events/settled.json"), id.as_str()).await.unwrap();
    assert_eq!(ended.state, "AUDITED");
    send(&process, include_str!("../events/failed.json"), id.as_str()).await.unwrap();
    assert_eq!(process.job(&id).await, job);
}

#[tokio::test(start_paused = true)]
async fn the_sweep_ends_a_job_without_a_process() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    process.kill_after(&id, Duration::from_millis(1)).await;
    harness.clock.sleep(Duration::from_secs(60)).await;
    send(&process, include_str!("../events/sweep.json"), "").await.unwrap();
    assert!(process.job(&id).await.state.is_terminal());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_job_or_event_is_not_retried() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let unknown = send(&process, include_str!("../events/settled.json"), "unknown").await.unwrap_err();
    assert_eq!((unknown.name, unknown.code.as_str()), (ErrorName::StepBroken, "unknown_job"));
    let unknown = handle(&process.app, json!({ "step": "dance" })).await.unwrap_err();
    assert_eq!(unknown.name, ErrorName::StepBroken);
    assert!(unknown.reason.contains("dance"), "{}", unknown.reason);
}

/// As in the function, which has no parser.
#[tokio::test(start_paused = true)]
async fn a_document_that_was_not_opened_in_time_is_left_to_intake() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.pdf = Arc::new(FakePdf::absent());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    harness.clock.sleep(Duration::from_secs(10)).await;
    let event = json!({ "step": "finalize", "job_id": id, "cause": "DeadlineReached" });
    let late = handle(&process.app, event.clone()).await.unwrap_err();
    assert_eq!((late.name, late.code.as_str()), (ErrorName::NotOpened, "not_opened"));
    harness.pdf = Arc::new(FakePdf::default());
    let intake = harness.start("b");
    everypage_core::prepare::understand_late(&intake.app.preparer, &process.job(&id).await).await.unwrap();
    assert_eq!(handle(&process.app, event).await.unwrap().state, "AUDITED");
    assert!(process.job(&id).await.result.unwrap().metadata.timeout_occurred);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_deadline_was_moved_continues() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let event = json!({ "step": "finalize", "job_id": id, "cause": "DeadlineReached" });
    let early = handle(&process.app, event.clone()).await.unwrap_err();
    assert_eq!(early.name, ErrorName::JobStillOpen);
    harness.clock.sleep(Duration::from_secs(300)).await;
    assert_eq!(handle(&process.app, event).await.unwrap().state, "AUDITED");
}
