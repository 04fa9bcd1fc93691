//! Batches as Lambda hands them over, on memory and virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, time::Duration};

use everypage_aws::{Clients, SqsQueue};
use everypage_core::{
    domain::{
        ids::Priority,
        job::Job,
        message::PageMessage,
        outcome::{Outcome, Source},
    },
    ports::queue::Queue,
    store::{dead, pages},
    usecases::{plan, prepare},
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

/// A job whose pages are about to be sent, and their messages.
async fn planned(process: &Process, document: &FakeDocument) -> (Job, Vec<PageMessage>) {
    let app = &process.app;
    let job = process.submit(document).await.unwrap().job;
    for range in prepare::inspect(app, &job).await.unwrap() {
        prepare::read_range(app, &job, &range).await.unwrap();
        prepare::render_range(app, &job, &range).await.unwrap();
    }
    let job = prepare::understand(app, &job).await.unwrap();
    let job = plan::propose(app, &job).await.unwrap();
    let messages = plan::manifest(app, job.plan.as_ref().unwrap()).await.unwrap();
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
    let answer = everypage_worker::handle(&process.app, &queue, batch, time).await;
    let answer = serde_json::to_value(answer).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_batch_are_worked_on_at_once_and_one_does_not_fail_the_others() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let (job, messages) = planned(&process, &FakeDocument::graphics(3)).await;
    // The third is another worker's for now.
    pages::claim(&process.app, &job.id, messages[2].page_id, 0, "other", MINUTES).await.unwrap();
    let mut bodies: Vec<String> = messages.iter().map(PageMessage::encode).collect();
    bodies.insert(1, "not a page message".into());
    assert_eq!(handle(&process, batch(bodies), MINUTES).await, ["message-3"]);
    let settled = pages::all(&process.app, &job.id).await.unwrap();
    let read =
        settled.values().filter(|kept| kept.value.outcome.as_ref().is_some_and(|outcome| outcome.is_ai()));
    assert_eq!(read.count(), 2);
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value.priority, Priority::Urgent, "of the lane that it came by");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_done_when_the_function_must_end_goes_back_and_the_rest_does_not() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::Hang,
        _ => Reply::Answer(everypage_testkit::vision::read_by(target, page)),
    });
    let process = harness.start("a");
    let (_, messages) = planned(&process, &FakeDocument::graphics(2)).await;
    let bodies = messages.iter().map(PageMessage::encode);
    assert_eq!(handle(&process, batch(bodies), Duration::from_secs(30)).await, ["message-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_only_waited_is_passed_on_with_all_its_deliveries_left() {
    let harness = Harness::new(&[("MAX_INFLIGHT_PER_MODEL", "1"), ("JOB_TIMEOUT", "1h")]);
    harness.vision.set_behaviour(|target, page| {
        let text = everypage_testkit::vision::read_by(target, page);
        Reply::AnswerAfter(Duration::from_secs(100), text)
    });
    let process = harness.start("a");
    let (job, messages) = planned(&process, &FakeDocument::graphics(2)).await;
    let bodies: Vec<String> = messages.iter().map(PageMessage::encode).collect();
    // Of these 185 s models are asked for 90, and one page has the only slot for 100.
    let failed = handle(&process, batch(bodies.clone()), Duration::from_secs(185)).await;
    assert_eq!(failed, Vec::<String>::new(), "one is done, the other a new message's");
    assert_eq!(harness.vision.calls().len(), 1);

    let mut passed_on = harness.queue.receive(10, MINUTES).await.unwrap();
    assert_eq!((passed_on.len(), passed_on[0].receive_count), (1, 1));
    let body = passed_on.remove(0).body;
    assert!(bodies.contains(&body), "the same page, token and deadline");
    assert_eq!(handle(&process, batch([body]), MINUTES).await, Vec::<String>::new());
    let settled = pages::all(&process.app, &job.id).await.unwrap();
    let read = settled.values().filter(|kept| kept.value.outcome.as_ref().is_some_and(Outcome::is_ai));
    assert_eq!(read.count(), 2);
    assert_eq!(harness.vision.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_was_asked_about_in_vain_uses_up_a_delivery() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "1h")]);
    harness.vision.set_behaviour(|_, _| Reply::AnswerAfter(Duration::from_secs(70), String::new()));
    let process = harness.start("a");
    let (_, messages) = planned(&process, &FakeDocument::graphics(1)).await;
    // Models are asked for 60 s: the first one's nothing comes when it is too late for the second.
    let failed = handle(&process, batch([messages[0].encode()]), Duration::from_secs(125)).await;
    assert_eq!(failed, ["message-0"]);
    assert_eq!(harness.vision.calls().len(), 1);
    assert!(harness.queue.is_empty(), "not passed on, or it might go on so for ever");
}

#[tokio::test(start_paused = true)]
async fn no_model_is_asked_about_a_page_without_image_and_words() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut scans = FakeDocument::graphics(2);
    scans.pages[0].text.clear();
    let (job, mut messages) = planned(&process, &scans).await;
    for message in &mut messages {
        message.image = None;
    }
    let bodies = messages.iter().map(PageMessage::encode);
    assert_eq!(handle(&process, batch(bodies), MINUTES).await, Vec::<String>::new());
    assert_eq!(harness.vision.calls().iter().map(|(_, page)| *page).collect::<Vec<_>>(), [2]);
    let settled = pages::all(&process.app, &job.id).await.unwrap();
    let outcome = settled.values().next().unwrap().value.outcome.as_ref().unwrap();
    assert_eq!(outcome.source, Source::MupdfFallback);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_no_failure() {
    let harness = Harness::new(&[]);
    assert_eq!(handle(&harness.start("a"), batch([]), MINUTES).await, Vec::<String>::new());
}
