//! Batches as Lambda delivers them, on in-memory adapters and virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, time::Duration};

use everypage_aws::{Clients, SqsQueue};
use everypage_core::{
    dead_letters,
    ids::Priority,
    job::{Job, message::PageMessage},
    plan::propose,
    ports::queue::Queue,
    prepare,
    read::{outcome::Settlement, pages},
    source::Source,
};
use everypage_testkit::{pdf::FakeDocument, vision::Reply};
use everypage_tests::harness::{Harness, Process};
use serde_json::{Value, json};

const MINUTES: Duration = Duration::from_secs(300);

async fn lanes() -> SqsQueue {
    let clients = Clients::connect(Some("http://127.0.0.1:9".into()), Some("eu-west-1".into())).await;
    let url = |lane: &str| format!("https://sqs.eu-west-1.amazonaws.com/123456789012/everypage-{lane}");
    let urls = BTreeMap::from([(Priority::Low, url("low")), (Priority::High, url("high"))]);
    SqsQueue::new(clients.sqs, urls).unwrap()
}

/// A job with an approved plan, and its page messages.
async fn planned(process: &Process, document: &FakeDocument) -> (Job, Vec<PageMessage>) {
    let app = &process.app;
    let job = process.submit(document).await.unwrap().job;
    for range in prepare::inspect(&app.preparer, &job).await.unwrap() {
        prepare::read_range(&app.preparer, &job, &range).await.unwrap();
        prepare::render_range(&app.preparer, &job, &range).await.unwrap();
    }
    let job = prepare::understand(&app.preparer, &job).await.unwrap();
    let job = propose::propose(&app.planner, &job).await.unwrap();
    let messages = propose::manifest(app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap();
    (job, messages)
}

/// The recorded event, with these messages.
fn batch(bodies: impl IntoIterator<Item = String>) -> Value {
    let recorded: Value = serde_json::from_str(include_str!("../events/batch.json")).unwrap();
    let record = |(number, body): (usize, String)| {
        let mut record = recorded["Records"][0].clone();
        record["messageId"] = json!(format!("message-{number}"));
        record["body"] = json!(body);
        record
    };
    json!({ "Records": bodies.into_iter().enumerate().map(record).collect::<Vec<_>>() })
}

async fn handle(process: &Process, batch: Value, time: Duration) -> Vec<String> {
    let queue = lanes().await;
    let batch = serde_json::from_value(batch).unwrap();
    let response = everypage_worker::handle(&process.app, &queue, batch, time).await;
    let response = serde_json::to_value(response).unwrap();
    let failures = response["batchItemFailures"].as_array().unwrap();
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_batch_are_processed_concurrently_and_fail_independently() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let (job, messages) = planned(&process, &FakeDocument::graphics(3)).await;
    // Another worker has claimed the third.
    pages::claim(&process.app.store, &job.id, messages[2].page_id, 0, None, "other", MINUTES).await.unwrap();
    let mut bodies: Vec<String> = messages.iter().map(|message| message.encode().unwrap()).collect();
    bodies.insert(1, "not a page message".into());
    assert_eq!(handle(&process, batch(bodies), MINUTES).await, ["message-3"]);
    let settled = pages::all(&process.app.store, &job.id).await.unwrap();
    let read = settled
        .values()
        .filter(|record| record.value.outcome.as_ref().is_some_and(|outcome| outcome.is_ai()));
    assert_eq!(read.count(), 2);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert_eq!(dead_letters[0].value.priority, Priority::Urgent, "of its lane");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_page_is_passed_on_when_time_is_up() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::Hang,
        _ => Reply::Answer(everypage_testkit::vision::read_by(target, page)),
    });
    let process = harness.start("a");
    let (_, messages) = planned(&process, &FakeDocument::graphics(2)).await;
    let bodies = messages.iter().map(|message| message.encode().unwrap());
    let failed = handle(&process, batch(bodies), Duration::from_secs(30)).await;
    assert_eq!(failed, Vec::<String>::new(), "one is done, the other is in a new message");
    let resent = harness.queue.receive(10, MINUTES).await.unwrap();
    assert_eq!((resent.len(), resent[0].receive_count), (1, 1), "waiting is no crash");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_only_waited_is_sent_again_with_all_its_deliveries() {
    let pairs = [("MAX_INFLIGHT_PER_MODEL", "1"), ("JOB_TIMEOUT", "1h"), ("HEDGE", "off")];
    // One model: there is no other to go to.
    let one = [("SECONDARY_ENGINE", "openai"), ("OPENAI_SECONDARY_MODEL", "gpt-5.4")];
    let harness = Harness::new(&[pairs, [one[0], one[1], ("PATIENCE", "deadline")]].concat());
    harness.vision.set_behaviour(|target, page| {
        let text = everypage_testkit::vision::read_by(target, page);
        Reply::AnswerAfter(Duration::from_secs(100), text)
    });
    let process = harness.start("a");
    let (job, messages) = planned(&process, &FakeDocument::graphics(2)).await;
    let bodies: Vec<String> = messages.iter().map(|message| message.encode().unwrap()).collect();
    // Of these 185 s, 90 are for model calls, and one page holds the only slot for 100.
    let failed = handle(&process, batch(bodies.clone()), Duration::from_secs(185)).await;
    assert_eq!(failed, Vec::<String>::new(), "one is done, the other is in a new message");
    assert_eq!(harness.vision.calls().len(), 1);

    let mut resent = harness.queue.receive(10, MINUTES).await.unwrap();
    assert_eq!((resent.len(), resent[0].receive_count), (1, 1));
    let body = resent.remove(0).body;
    let message = PageMessage::parse(&body).unwrap();
    let same = PageMessage { rounds: 0, ..message }.encode().unwrap();
    assert!(bodies.contains(&same), "the same page and deadline");
    assert_eq!(handle(&process, batch([body]), MINUTES).await, Vec::<String>::new());
    let settled = pages::all(&process.app.store, &job.id).await.unwrap();
    let read = settled.values().filter(|record| record.value.outcome.as_ref().is_some_and(Settlement::is_ai));
    assert_eq!(read.count(), 2);
    assert_eq!(harness.vision.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_page_with_an_unsuccessful_model_call_is_passed_on_with_that_call() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "1h"), ("HEDGE", "off")]);
    harness.vision.set_behaviour(|_, _| Reply::AnswerAfter(Duration::from_secs(70), String::new()));
    let process = harness.start("a");
    let (job, messages) = planned(&process, &FakeDocument::graphics(1)).await;
    // 60 s are for model calls: the first one's empty response leaves no time for the second.
    let failed = handle(&process, batch([messages[0].encode().unwrap()]), Duration::from_secs(125)).await;
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(harness.vision.calls().len(), 1);
    assert_eq!(harness.queue.len(), 1, "in a new message");
    let stored = pages::all(&process.app.store, &job.id).await.unwrap();
    assert_eq!(stored.values().next().unwrap().value.earlier_calls.len(), 1, "the model is not called again");
}

#[tokio::test(start_paused = true)]
async fn a_page_without_image_and_text_gets_no_model_call() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut scans = FakeDocument::graphics(2);
    scans.pages[0].text.clear();
    let (job, mut messages) = planned(&process, &scans).await;
    for message in &mut messages {
        message.image = None;
    }
    let bodies = messages.iter().map(|message| message.encode().unwrap());
    assert_eq!(handle(&process, batch(bodies), MINUTES).await, Vec::<String>::new());
    assert_eq!(harness.vision.calls().iter().map(|(_, page)| *page).collect::<Vec<_>>(), [2]);
    let settled = pages::all(&process.app.store, &job.id).await.unwrap();
    let outcome = settled.values().next().unwrap().value.outcome.as_ref().unwrap();
    assert_eq!(outcome.source, Source::MUPDF_FALLBACK);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_no_failure() {
    let harness = Harness::new(&[]);
    assert_eq!(handle(&harness.start("a"), batch([]), MINUTES).await, Vec::<String>::new());
}
