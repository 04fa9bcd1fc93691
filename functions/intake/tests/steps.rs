//! Steps with the state machine's requests, on in-memory adapters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, http::HeaderMap, routing::post};
use everypage_core::{
    ids::Priority,
    job::{Job, State, cancel::cancel},
    plan::{decide::modify, propose},
    ports::{queue::Queue, vision::VisionError},
    source::Source,
};
use everypage_function::ErrorName;
use everypage_intake::handle;
use everypage_testkit::{
    ocr::{FakeOcr, RECOGNIZED},
    pdf::FakeDocument,
    vision::Reply,
};
use everypage_tests::harness::Harness;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{NO_ENDPOINT, stack};
use tokio::net::TcpListener;

/// A service of AWS that accepts every call.
struct FakeService {
    endpoint: String,
    calls: Arc<Mutex<Vec<String>>>,
}

impl FakeService {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = calls.clone();
        let router = Router::new().fallback(post(async move |headers: HeaderMap| {
            seen.lock().unwrap().push(headers["x-amz-target"].to_str().unwrap().to_owned());
            "{}"
        }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { endpoint, calls }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_large_document_can_be_repeated() {
    let harness = Harness::new(&[("RANGE_PAGES", "3")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let job = process.submit(&FakeDocument::graphics(4)).await.unwrap().job;
    let run = async |step: Value| {
        support::run_step(&stack, &job.id, step.clone()).await;
        support::run_step(&stack, &job.id, step).await
    };
    let loaded = run(json!({ "step": "load" })).await;
    // Within the second before the deadline.
    let deadline = Timestamp::from_second(job.deadline.as_second()).unwrap().to_string();
    assert!(!deadline.contains('.'), "{deadline}");
    // A quarter of five minutes before it.
    let ocr_at = job.deadline.checked_sub(Duration::from_secs(75)).unwrap();
    let ocr_at = Timestamp::from_second(ocr_at.as_second()).unwrap().to_string();
    assert_eq!(
        loaded,
        json!({ "job_id": job.id, "deadline": deadline, "ocr_at": ocr_at, "state": "ACKED", "open": true, "halted": false })
    );
    let prepared = run(json!({ "step": "prepare" })).await;
    let ranges = json!([
        { "first": 1, "last": 3, "count": 3, "pages": "1-3" },
        { "first": 4, "last": 4, "count": 1, "pages": "4" },
    ]);
    assert_eq!(prepared, json!({ "next": "read_texts", "ranges": ranges, "groups": [] }));
    for range in ranges.as_array().unwrap() {
        assert_eq!(run(json!({ "step": "read_text", "range": range })).await, json!({}));
        assert_eq!(run(json!({ "step": "render", "range": range })).await, json!({}));
    }
    let planned = run(json!({ "step": "plan" })).await;
    let groups = json!([{ "first": 1, "last": 3 }, { "first": 4, "last": 4 }]);
    assert_eq!(planned, json!({ "next": "send_pages", "ranges": [], "groups": groups }));
    assert_eq!(run(json!({ "step": "prepare" })).await, planned, "in a later round of the race");
    for group in groups.as_array().unwrap() {
        assert_eq!(run(json!({ "step": "send", "group": group })).await, json!({}));
    }
    // The queue drops a message that is waiting already; on SQS a page's claim lets one worker through.
    let sent = harness.queue.receive(100, Duration::from_secs(1)).await.unwrap();
    assert_eq!(sent.len(), 4);

    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &job.id, "ann")
        .await
        .unwrap();
    assert_eq!(run(json!({ "step": "load" })).await["halted"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn a_document_of_one_range_is_prepared_and_planned_in_one_step() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    let prepared = run(json!({ "step": "prepare" })).await;
    assert_eq!(prepared["next"], json!("send_pages"));
    assert_eq!(run(json!({ "step": "prepare" })).await, prepared);
    let job = process.job(&id).await;
    let messages = propose::manifest(process.app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.len() == 2 && messages.iter().all(|message| message.image.is_some()));
}

async fn waiting_pages(harness: &Harness) -> u64 {
    harness.queue.depths().await.unwrap().iter().map(|(_, depth)| depth).sum()
}

#[tokio::test]
async fn one_step_does_all_for_a_document_of_one_range_and_may_be_repeated() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let sfn = FakeService::start().await;
    let stack = stack(&process, &sfn.endpoint).await;
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let begin = async |token: &str| {
        let step = json!({ "step": "begin", "state": "ACKED", "token": token });
        assert_eq!(support::run_step(&stack, &id, step).await, json!({}));
    };
    begin("t1").await;
    begin("t2").await;
    assert_eq!((waiting_pages(&harness).await, sfn.calls()), (2, vec![]));
    tokio::time::pause();
    process.work_for(Duration::from_secs(10)).await;
    tokio::time::resume();
    // As after a step that died before it could answer.
    begin("t3").await;
    assert_eq!(
        (waiting_pages(&harness).await, sfn.calls()),
        (0, vec!["AWSStepFunctions.SendTaskSuccess".into()])
    );
}

#[tokio::test]
async fn a_document_of_many_ranges_or_without_pages_for_ai_ends_that_step_at_once() {
    // The first page of a mixed document has text only.
    for (pages, answer) in [(4, "SendTaskFailure"), (1, "SendTaskSuccess")] {
        let harness = Harness::new(&[("RANGE_PAGES", "3")]);
        let process = harness.start("a");
        let sfn = FakeService::start().await;
        let stack = stack(&process, &sfn.endpoint).await;
        let id = process.submit(&FakeDocument::mixed(pages)).await.unwrap().job.id;
        let begin = json!({ "step": "begin", "state": "ACKED", "token": "t1" });
        support::run_step(&stack, &id, begin.clone()).await;
        let answered = format!("AWSStepFunctions.{answer}");
        assert_eq!(sfn.calls(), [answered.as_str()]);
        // As after an approval.
        support::run_step(&stack, &id, json!({ "step": "plan" })).await;
        support::run_step(&stack, &id, begin).await;
        assert_eq!(sfn.calls(), [answered.as_str(), &answered]);
        assert_eq!(waiting_pages(&harness).await, 0);
    }
}

/// Executions keep the definition that they started with: after a deployment they call the new functions.
#[tokio::test]
async fn an_execution_of_a_definition_without_begin_continues() {
    let events: Value = serde_json::from_str(include_str!("../events/steps-without-begin.json")).unwrap();
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let sfn = FakeService::start().await;
    let stack = stack(&process, &sfn.endpoint).await;
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let run = async |step: &str| support::run_step(&stack, &id, events[step].clone()).await;
    run("listen").await;
    let prepared = run("prepare").await;
    assert_eq!(prepared["next"], "send_pages");
    assert_eq!(prepared["groups"], json!([events["send"]["group"]]));
    assert_eq!(run("plan").await["next"], "send_pages");
    run("send").await;
    tokio::time::pause();
    process.work_for(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(run("load").await["open"], true);
    assert_eq!(run("ocr_plan").await, json!({ "groups": [] }));
    let mut finalize = events["finalize"].clone();
    finalize["job_id"] = json!(id);
    assert_eq!(everypage_finalize::handle(&process.app, finalize).await.unwrap().state, "AUDITED");
}

/// Pages that are settled before the token is stored are not missed, and neither is a wake-up that was lost.
#[tokio::test]
async fn a_step_that_listens_too_late_is_answered_at_once() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let sfn = FakeService::start().await;
    let stack = stack(&process, &sfn.endpoint).await;
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    let listen = json!({ "step": "listen", "state": "ACKED", "token": "t1" });
    run(listen.clone()).await;
    let groups = run(json!({ "step": "prepare" })).await["groups"].clone();
    run(json!({ "step": "send", "group": groups[0] })).await;
    run(listen.clone()).await;
    assert_eq!(sfn.calls(), Vec::<String>::new(), "no page is settled");
    tokio::time::pause();
    process.work_for(Duration::from_secs(10)).await;
    tokio::time::resume();
    run(listen).await;
    assert_eq!(sfn.calls(), ["AWSStepFunctions.SendTaskSuccess"]);
    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann").await.unwrap();
    run(json!({ "step": "listen", "state": "ACKED", "token": "t2" })).await;
    assert_eq!(sfn.calls().last().unwrap(), "AWSStepFunctions.SendTaskFailure");
}

#[tokio::test(start_paused = true)]
async fn pages_are_sent_to_the_lane_of_the_modified_plan() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    assert_eq!(run(json!({ "step": "prepare" })).await["next"], json!("await_decision"));
    let make_urgent = |job: &mut Job| job.received.options.priority = Priority::Urgent;
    modify(&process.app.planner, &id, "ann", make_urgent).await.unwrap();
    let groups = run(json!({ "step": "prepare" })).await["groups"].clone();
    run(json!({ "step": "send", "group": groups[0] })).await;
    let sent = harness.queue.receive(10, Duration::from_secs(1)).await.unwrap();
    assert_eq!(sent.iter().map(|delivery| delivery.lane).collect::<Vec<_>>(), [Priority::Urgent]);
}

#[tokio::test(start_paused = true)]
async fn a_document_without_images_or_text_is_planned_nevertheless() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let job = process.submit(&FakeDocument::mixed(4)).await.unwrap().job;
    // As after a step that was killed each time: the plan reads the text.
    let planned = support::run_step(&stack, &job.id, json!({ "step": "plan" })).await;
    assert_eq!(planned["next"], json!("send_pages"));
    let job = process.job(&job.id).await;
    let messages = propose::manifest(process.app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap();
    assert!(messages.len() == 2 && messages.iter().all(|message| message.image.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_not_opened_in_time_is_read_after_its_deadline() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    harness.advance(Duration::from_secs(20)).await;
    for _ in 0..2 {
        assert_eq!(support::run_step(&stack, &id, json!({ "step": "read_late" })).await, json!({}));
        let job = process.job(&id).await;
        assert_eq!((job.state, job.survey.unwrap().document_pages), (State::Understood, 4));
    }
}

/// A harness whose models refuse every page, and whose OCR takes a second for one.
fn scanning(settings: &[(&str, &str)]) -> (Harness, Arc<FakeOcr>) {
    let mut harness = Harness::new(settings);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Request { detail: "no".into() }));
    let ocr = Arc::new(FakeOcr::new(harness.clock.clone(), Duration::from_secs(1)));
    harness.ocr = ocr.clone();
    (harness, ocr)
}

/// As `statemachine.asl.json` goes: Finalize asks for OCR once, and the pages are recognized in groups.
#[tokio::test(start_paused = true)]
async fn pages_that_were_given_up_are_recognized_before_the_result() {
    let (harness, ocr) = scanning(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::scan(20)).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    assert_eq!(run(json!({ "step": "ocr_plan" })).await, json!({ "groups": [] }), "not read yet");
    let groups = run(json!({ "step": "prepare" })).await["groups"].clone();
    run(json!({ "step": "send", "group": groups[0] })).await;
    process.work_for(Duration::from_secs(60)).await;
    let finalize = async |cause: &str| {
        let event = json!({ "step": "finalize", "job_id": id, "cause": cause });
        everypage_finalize::handle(&process.app, event).await
    };
    let asked = finalize("PagesSettled").await.unwrap_err();
    assert_eq!(asked.name, ErrorName::JobNeedsOcr);
    let planned = run(json!({ "step": "ocr_plan" })).await;
    let groups = planned["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group.as_array().unwrap().len()).collect::<Vec<_>>(), [8, 8, 4]);
    for group in groups {
        for _ in 0..2 {
            assert_eq!(run(json!({ "step": "recognize", "pages": group })).await, json!({}));
        }
    }
    assert_eq!(ocr.pages(), (20, 20), "each page once");
    assert_eq!(run(json!({ "step": "ocr_plan" })).await, json!({ "groups": [] }));
    assert_eq!(finalize("PagesRecognized").await.unwrap().state, "AUDITED");
    let pages = process.result(&process.job(&id).await).await.pages;
    assert!(pages.iter().all(|page| page.source == Source::OCR_FALLBACK && page.text == RECOGNIZED));
}

#[tokio::test(start_paused = true)]
async fn ocr_ends_before_the_deadline_and_a_document_without_scans_asks_for_none() {
    let (harness, ocr) = scanning(&[("JOB_TIMEOUT", "30s")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let id = process.submit(&FakeDocument::scan(8)).await.unwrap().job.id;
    support::run_step(&stack, &id, json!({ "step": "prepare" })).await;
    harness.advance(Duration::from_millis(22_500)).await;
    let pages = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    support::run_step(&stack, &id, json!({ "step": "recognize", "pages": pages })).await;
    assert_eq!(ocr.pages(), (6, 4), "two at a time, for two and a half seconds");
    assert_eq!(support::run_step(&stack, &id, json!({ "step": "ocr_plan" })).await, json!({ "groups": [] }));

    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let groups = support::run_step(&stack, &id, json!({ "step": "prepare" })).await["groups"].clone();
    support::run_step(&stack, &id, json!({ "step": "send", "group": groups[0] })).await;
    process.work_for(Duration::from_secs(10)).await;
    let event = json!({ "step": "finalize", "job_id": id, "cause": "PagesSettled" });
    assert_eq!(everypage_finalize::handle(&process.app, event).await.unwrap().state, "AUDITED");
}

#[tokio::test(start_paused = true)]
async fn failures_have_error_names_of_the_state_machine() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let locked = FakeDocument { password: Some("secret".into()), ..FakeDocument::mixed(1) };
    let id = process.submit(&locked).await.unwrap().job.id;
    let failed = handle(&stack, json!({ "step": "prepare", "job_id": id })).await.unwrap_err();
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
