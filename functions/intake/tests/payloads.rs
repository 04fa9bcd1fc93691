//! The state machine's payloads stay below the limit of Step Functions, also for the largest documents.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use everypage_core::{ports::queue::Queue, settings::AiPages};
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use serde_json::{Value, json};
use support::{NO_ENDPOINT, stack};

/// Step Functions' limit for the input and output of a state.
const MAX_PAYLOAD_BYTES: usize = 256 * 1024;
/// What Step Functions adds to a function's response.
const ENVELOPE_BYTES: usize = 8 * 1024;
/// SQS's limit for a batch of ten messages.
const MAX_BATCH_BYTES: usize = 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn the_state_of_the_largest_document_fits_with_and_without_gaps() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let largest = process.app.settings.pdf.max_pages;
    let document = FakeDocument::graphics(largest);
    let numbers = |filter: fn(u32) -> bool| {
        (1..=largest).filter(|page| filter(*page)).map(|page| page.to_string()).collect::<Vec<_>>().join(",")
    };
    for pages in ["all".to_owned(), numbers(|page| page % 2 == 1), numbers(|page| page % 3 > 0)] {
        let selected = |options: &mut everypage_core::job::JobOptions| {
            options.pages = pages.parse().unwrap();
        };
        let job = process.submit_with(&document, selected, None, None).await.unwrap().job;
        let run = async |step: &str| handle(&stack, json!({ "step": step, "job_id": job.id })).await.unwrap();
        let (loaded, prepared) = (run("load").await, run("prepare").await);
        let ranges = prepared["ranges"].as_array().unwrap();
        let count: u64 = ranges.iter().map(|range| range["count"].as_u64().unwrap()).sum();
        assert!(count >= 10_000, "{count} pages");
        // The output of Plan replaces that of Prepare, and has at most forty groups instead of the ranges.
        let state = json!({ "job_id": job.id, "job": loaded, "prepared": prepared });
        let bytes = state.to_string().len();
        assert!(bytes + ENVELOPE_BYTES < MAX_PAYLOAD_BYTES, "{bytes} bytes for {} ranges", ranges.len());
        // The output of the two maps: an empty object for each range.
        let ended = Value::from(vec![json!({}); ranges.len()]).to_string().len();
        assert!(ended + ENVELOPE_BYTES < MAX_PAYLOAD_BYTES, "{ended} bytes for {} ranges", ranges.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_message_fits_whatever_its_text() {
    let harness = Harness::new(&[("AI_PAGES", "all")]);
    let process = harness.start("a");
    let stack = stack(&process, NO_ENDPOINT).await;
    let mut document = FakeDocument::mixed(4);
    // JSON needs six bytes for each character of the first text: more than a payload may have.
    document.pages[0].text = "\u{1}".repeat(60_000);
    document.pages[2].text = "words ".repeat(100_000);
    let id = process.submit(&document).await.unwrap().job.id;
    let run = async |step: Value| support::run_step(&stack, &id, step).await;
    let groups = run(json!({ "step": "prepare" })).await["groups"].clone();
    let job = process.job(&id).await;
    assert_eq!(job.received.options.ai_pages, AiPages::All);
    run(json!({ "step": "send", "group": groups[0] })).await;
    let sent = harness.queue.receive(10, Duration::from_secs(1)).await.unwrap();
    assert_eq!(sent.len(), 4);
    for delivery in sent {
        assert!(delivery.body.len() <= MAX_BATCH_BYTES / 10, "{} bytes", delivery.body.len());
    }
}
