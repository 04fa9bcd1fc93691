//! Steps with the state machine's requests, on in-memory adapters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use everypage_core::{
    ids::Priority,
    job::{Job, cancel::cancel},
    plan::{decide::modify, propose},
};
use everypage_function::ErrorName;
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{NO_ENDPOINT, stack};

#[tokio::test(start_paused = true)]
async fn each_step_from_load_to_plan_can_be_repeated() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let job = process.submit(&FakeDocument::mixed(4)).await.unwrap().job;
    let run = async |step: Value| {
        support::run_step(&stack, &job.id, step.clone()).await;
        support::run_step(&stack, &job.id, step).await
    };
    let loaded = run(json!({ "step": "load" })).await;
    // Within the second before the deadline.
    let deadline = Timestamp::from_second(job.deadline.as_second()).unwrap().to_string();
    assert!(!deadline.contains('.'), "{deadline}");
    assert_eq!(
        loaded,
        json!({ "job_id": job.id, "deadline": deadline, "state": "ACKED", "open": true, "halted": false })
    );
    let ranges = run(json!({ "step": "inspect" })).await["ranges"].clone();
    assert_eq!(ranges, json!([{ "first": 1, "last": 4, "count": 4, "pages": "1-4" }]));
    assert_eq!(run(json!({ "step": "read_text", "range": ranges[0] })).await, json!({}));
    assert_eq!(run(json!({ "step": "render", "range": ranges[0] })).await, json!({}));
    let plan = run(json!({ "step": "plan" })).await;
    assert_eq!((&plan["state"], &plan["ai_pages"]), (&json!("APPROVED"), &json!(2)));
    assert_eq!(plan["queue_url"], json!("https://q/Normal"));
    assert!(plan["manifest"].as_str().unwrap().starts_with(&format!("jobs/{}/manifest-v1-", job.id)));

    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &job.id, "ann")
        .await
        .unwrap();
    assert_eq!(run(json!({ "step": "load" })).await["halted"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn pages_are_sent_to_the_lane_of_the_modified_plan() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    let ranges = run(json!({ "step": "inspect" })).await["ranges"].clone();
    run(json!({ "step": "read_text", "range": ranges[0] })).await;
    run(json!({ "step": "render", "range": ranges[0] })).await;
    let proposed = run(json!({ "step": "plan" })).await;
    assert_eq!(
        (&proposed["state"], &proposed["queue_url"]),
        (&json!("PROPOSED"), &json!("https://q/Normal"))
    );
    let make_urgent = |job: &mut Job| job.received.options.priority = Priority::Urgent;
    let job = modify(&process.app.planner, &id, "ann", make_urgent).await.unwrap();
    let planned = run(json!({ "step": "plan" })).await;
    assert_eq!((&planned["state"], &planned["queue_url"]), (&json!("APPROVED"), &json!("https://q/Urgent")));
    // The local backend takes the lane from each message.
    let messages = propose::manifest(process.app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.iter().all(|message| message.priority == Priority::Urgent));
}

#[tokio::test(start_paused = true)]
async fn a_document_without_images_is_planned_nevertheless() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let job = process.submit(&FakeDocument::mixed(4)).await.unwrap().job;
    let run = async |step: Value| support::run_step(&stack, &job.id, step).await;
    let ranges = run(json!({ "step": "inspect" })).await["ranges"].clone();
    run(json!({ "step": "read_text", "range": ranges[0] })).await;
    let planned = run(json!({ "step": "plan" })).await;
    assert_eq!((&planned["state"], &planned["ai_pages"]), (&json!("APPROVED"), &json!(2)));
    let job = process.job(&job.id).await;
    let messages = propose::manifest(process.app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.iter().all(|message| message.image.is_none()));
}

#[tokio::test(start_paused = true)]
async fn failures_have_error_names_of_the_state_machine() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let locked = FakeDocument { password: Some("secret".into()), ..FakeDocument::mixed(1) };
    let id = process.submit(&locked).await.unwrap().job.id;
    let failed = handle(&stack, json!({ "step": "inspect", "job_id": id })).await.unwrap_err();
    assert_eq!((failed.name, failed.code.as_str()), (ErrorName::DocumentError, "password_needed"));
    let unknown = handle(&stack, json!({ "step": "load", "job_id": "unknown" })).await.unwrap_err();
    assert_eq!((unknown.name, unknown.code.as_str()), (ErrorName::StepBroken, "unknown_job"));
    let early = handle(&stack, json!({ "step": "plan", "job_id": id })).await.unwrap_err();
    assert_eq!(early.name, ErrorName::DocumentError);
    for event in [json!({ "step": "fly" }), json!({}), json!([1]), json!({ "Records": 7 })] {
        let failed = handle(&stack, event).await.unwrap_err();
        assert_eq!((failed.name, failed.code.as_str()), (ErrorName::StepBroken, "unknown_event"));
    }
    // S3 sends this event when a notification is configured.
    assert_eq!(handle(&stack, json!({ "Event": "s3:TestEvent" })).await.unwrap(), json!({}));
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_no_documents_are_ignored() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    for key in ["incoming/acme/report.pdf.json", "incoming/acme/", "jobs/x/source.pdf"] {
        let mut event: Value = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
        event["Records"][0]["s3"]["object"]["key"] = json!(key);
        assert_eq!(handle(&stack, event).await.unwrap(), json!({ "jobs": [] }), "{key}");
    }
}
