//! Steps as the state machine asks for them, on memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use everypage_core::{
    domain::{ids::Priority, job::Job},
    usecases::{cancel::cancel, decide::modify, plan},
};
use everypage_function::Name;
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{NOWHERE, stack};

#[tokio::test(start_paused = true)]
async fn from_look_to_plan_and_each_step_twice() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let job = process.submit(&FakeDocument::mixed(4)).await.unwrap().job;
    let ask = async |step: Value| {
        support::ask(&stack, &job.id, step.clone()).await;
        support::ask(&stack, &job.id, step).await
    };
    let looked = ask(json!({ "step": "look" })).await;
    // Within the second before the deadline.
    let deadline = Timestamp::from_second(job.deadline.as_second()).unwrap().to_string();
    assert!(!deadline.contains('.'), "{deadline}");
    assert_eq!(
        looked,
        json!({ "job_id": job.id, "deadline": deadline, "state": "ACKED", "open": true, "halted": false })
    );
    let ranges = ask(json!({ "step": "inspect" })).await["ranges"].clone();
    assert_eq!(ranges, json!([{ "first": 1, "last": 4, "count": 4, "pages": "1-4" }]));
    assert_eq!(ask(json!({ "step": "read_text", "range": ranges[0] })).await, json!({}));
    assert_eq!(ask(json!({ "step": "render", "range": ranges[0] })).await, json!({}));
    let plan = ask(json!({ "step": "plan" })).await;
    assert_eq!((&plan["state"], &plan["ai_pages"]), (&json!("APPROVED"), &json!(2)));
    assert_eq!(plan["queue_url"], json!("https://q/Normal"));
    assert!(plan["manifest"].as_str().unwrap().starts_with(&format!("jobs/{}/manifest-v1-", job.id)));

    cancel(&process.app, &job.id, "ann").await.unwrap();
    assert_eq!(ask(json!({ "step": "look" })).await["halted"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn pages_go_by_the_lane_of_the_plan_as_a_person_changed_it() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let ask = async |step: Value| support::ask(&stack, &id, step).await;
    let ranges = ask(json!({ "step": "inspect" })).await["ranges"].clone();
    ask(json!({ "step": "read_text", "range": ranges[0] })).await;
    ask(json!({ "step": "render", "range": ranges[0] })).await;
    let proposed = ask(json!({ "step": "plan" })).await;
    assert_eq!(
        (&proposed["state"], &proposed["queue_url"]),
        (&json!("PROPOSED"), &json!("https://q/Normal"))
    );
    let hurry = |job: &mut Job| job.received.options.priority = Priority::Urgent;
    let job = modify(&process.app, &id, "ann", hurry).await.unwrap();
    let planned = ask(json!({ "step": "plan" })).await;
    assert_eq!((&planned["state"], &planned["queue_url"]), (&json!("APPROVED"), &json!("https://q/Urgent")));
    // As on one machine, where each message says its lane.
    let messages = plan::manifest(&process.app, job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.iter().all(|message| message.priority == Priority::Urgent));
}

#[tokio::test(start_paused = true)]
async fn a_document_whose_images_could_not_be_made_is_planned_all_the_same() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let job = process.submit(&FakeDocument::mixed(4)).await.unwrap().job;
    let ask = async |step: Value| support::ask(&stack, &job.id, step).await;
    let ranges = ask(json!({ "step": "inspect" })).await["ranges"].clone();
    ask(json!({ "step": "read_text", "range": ranges[0] })).await;
    let planned = ask(json!({ "step": "plan" })).await;
    assert_eq!((&planned["state"], &planned["ai_pages"]), (&json!("APPROVED"), &json!(2)));
    let job = process.job(&job.id).await;
    let messages = plan::manifest(&process.app, job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.iter().all(|message| message.image.is_none()));
}

#[tokio::test(start_paused = true)]
async fn failures_go_by_names_that_the_state_machine_knows() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let locked = FakeDocument { password: Some("secret".into()), ..FakeDocument::mixed(1) };
    let id = process.submit(&locked).await.unwrap().job.id;
    let failed = handle(&stack, json!({ "step": "inspect", "job_id": id })).await.unwrap_err();
    assert_eq!((failed.name, failed.code.as_str()), (Name::DocumentError, "password_needed"));
    let unknown = handle(&stack, json!({ "step": "look", "job_id": "nobody" })).await.unwrap_err();
    assert_eq!((unknown.name, unknown.code.as_str()), (Name::StepBroken, "unknown_job"));
    let early = handle(&stack, json!({ "step": "plan", "job_id": id })).await.unwrap_err();
    assert_eq!(early.name, Name::DocumentError);
    for strange in [json!({ "step": "fly" }), json!({}), json!([1]), json!({ "Records": 7 })] {
        let failed = handle(&stack, strange).await.unwrap_err();
        assert_eq!((failed.name, failed.code.as_str()), (Name::StepBroken, "unknown_event"));
    }
    // What S3 sends when a notification is set up.
    assert_eq!(handle(&stack, json!({ "Event": "s3:TestEvent" })).await.unwrap(), json!({}));
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_no_documents_are_left_alone() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    for key in ["incoming/acme/report.pdf.json", "incoming/acme/", "jobs/x/source.pdf"] {
        let mut event: Value = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
        event["Records"][0]["s3"]["object"]["key"] = json!(key);
        assert_eq!(handle(&stack, event).await.unwrap(), json!({ "jobs": [] }), "{key}");
    }
}
