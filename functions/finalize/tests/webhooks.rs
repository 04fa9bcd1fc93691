//! A job's end reaches the tenant's webhook from the step that ends it; the sweep sends what that step did not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use everypage_core::{
    dead_letters::fail::fail,
    events::nodes,
    ids::{JobId, TenantId},
    job::Failure,
    notify::webhooks,
    recover::sweep::{NODE_TIMEOUT, sweep},
    time::within,
};
use everypage_finalize::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::{Harness, Process};
use serde_json::json;

const HOOK: &str = "https://example.com/hook";

/// A process with a job, whose tenant has a webhook.
async fn accepted(harness: &Harness) -> (Process, JobId) {
    let process = harness.start("a");
    let (store, vault) = (&process.app.store, process.app.vault.as_ref());
    webhooks::set(store, vault, &TenantId::new("local"), HOOK, "test").await.unwrap();
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    (process, id)
}

/// Ends the job as the state machine does at its deadline.
async fn finalize(harness: &Harness, process: &Process, id: &JobId) {
    harness.advance(Duration::from_secs(300)).await;
    retry_finalize(process, id).await;
}

async fn retry_finalize(process: &Process, id: &JobId) {
    let event = json!({ "step": "finalize", "job_id": id, "cause": "DeadlineReached" });
    assert_eq!(handle(&process.app, event).await.unwrap().state, "AUDITED");
}

fn types_sent(harness: &Harness) -> Vec<String> {
    let body = |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap()["type"].clone();
    harness.hooks.calls().iter().map(|call| body(&call.body).as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_step_that_ends_a_job_sends_its_webhook_and_the_sweep_does_not_repeat_it() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    finalize(&harness, &process, &id).await;
    assert_eq!(types_sent(&harness), ["job.success"]);
    assert_eq!(sweep(&process.app.recovery).await.webhooks, 0);
    // The step is repeated when its response was lost.
    retry_finalize(&process, &id).await;
    harness.advance(Duration::from_secs(120)).await;
    sweep(&process.app.recovery).await;
    assert_eq!(types_sent(&harness), ["job.success"]);
}

#[tokio::test(start_paused = true)]
async fn the_step_that_records_a_failure_sends_its_webhook() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    let error = json!({ "Error": "States.Timeout", "Cause": "" });
    handle(&process.app, json!({ "step": "fail", "job_id": id, "error": error })).await.unwrap();
    assert_eq!(types_sent(&harness), ["job.failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_dies_after_the_end_was_stored_is_made_good_by_its_retry() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    // The end is stored, and the function is killed before anything else.
    let failure = Failure { code: "step_failed".into(), reason: "killed".into() };
    fail(&process.app.dead_letters, &id, failure).await.unwrap();
    drop(process);
    let next = harness.start("b");
    let error = json!({ "Error": "States.Timeout", "Cause": "" });
    handle(&next.app, json!({ "step": "fail", "job_id": id, "error": error })).await.unwrap();
    assert_eq!(types_sent(&harness), ["job.failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_dies_and_is_not_retried_is_made_good_by_the_sweep() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    nodes::record_heartbeat(&process.app.store).await.unwrap();
    let failure = Failure { code: "step_failed".into(), reason: "killed".into() };
    fail(&process.app.dead_letters, &id, failure).await.unwrap();
    drop(process);
    let next = harness.start("b");
    assert_eq!(sweep(&next.app.recovery).await.webhooks, 0, "the instance may still be alive");
    harness.advance(NODE_TIMEOUT + Duration::from_secs(1)).await;
    // One relays the events of the dead instance, the next sends.
    sweep(&next.app.recovery).await;
    sweep(&next.app.recovery).await;
    assert_eq!(types_sent(&harness), ["job.failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_dies_while_it_sends_keeps_its_lease_until_the_sweep_sends_again() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    harness.hooks.hang_at(HOOK, Duration::from_secs(10));
    harness.advance(Duration::from_secs(300)).await;
    let event = json!({ "step": "finalize", "job_id": id, "cause": "DeadlineReached" });
    let killed = within(harness.clock.as_ref(), Duration::from_secs(5), handle(&process.app, event)).await;
    assert!(killed.is_none(), "killed during the call");
    drop(process);
    harness.hooks.hang_at("https://another.example", Duration::ZERO);
    let next = harness.start("b");
    retry_finalize(&next, &id).await;
    assert_eq!(harness.hooks.calls().len(), 1, "the first call may still arrive");
    harness.advance(Duration::from_secs(60)).await;
    assert_eq!(sweep(&next.app.recovery).await.webhooks, 1);
    assert_eq!(types_sent(&harness), ["job.success", "job.success"], "at least once, under one id");
    let id = |call: &everypage_core::ports::hooks::WebhookRequest| {
        call.headers.iter().find(|(name, _)| *name == "webhook-id").unwrap().1.clone()
    };
    let calls = harness.hooks.calls();
    assert_eq!(id(&calls[0]), id(&calls[1]));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_does_not_fail_the_step_and_is_retried_by_the_sweep() {
    let harness = Harness::new(&[]);
    let (process, id) = accepted(&harness).await;
    harness.hooks.fail_next(1);
    finalize(&harness, &process, &id).await;
    harness.advance(Duration::from_secs(60)).await;
    assert_eq!(sweep(&process.app.recovery).await.webhooks, 1);
    assert_eq!(types_sent(&harness).len(), 2);
    assert_eq!(webhooks::waiting(&process.app.store, 10).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_without_a_webhook_is_not_called() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(1)).await.unwrap().job.id;
    finalize(&harness, &process, &id).await;
    sweep(&process.app.recovery).await;
    assert!(harness.hooks.calls().is_empty());
}
