//! What the state machine carries from step to step fits into it, however large the document is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use everypage_core::{
    domain::{
        ids::{PageNumber, TaskToken},
        plan::AiPages,
    },
    usecases::plan,
};
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use serde_json::{Value, json};
use support::{NOWHERE, stack};

/// Step Functions' limit for what goes into a state and comes out of it.
const MOST: usize = 256 * 1024;
/// What it puts around a function's answer.
const AROUND: usize = 8 * 1024;
/// As long as a task's token may be.
const TOKEN: usize = 1024;

#[tokio::test(start_paused = true)]
async fn ten_thousand_pages_and_more_with_gaps_or_without() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let largest = process.app.settings.pdf.max_pages;
    let document = FakeDocument::graphics(largest);
    let numbers = |wanted: fn(u32) -> bool| {
        (1..=largest).filter(|page| wanted(*page)).map(|page| page.to_string()).collect::<Vec<_>>().join(",")
    };
    for pages in ["all".to_owned(), numbers(|page| page % 2 == 1), numbers(|page| page % 3 > 0)] {
        let selected = |options: &mut everypage_core::domain::job::JobOptions| {
            options.pages = pages.parse().unwrap();
        };
        let job = process.submit_with(&document, selected, None, None).await.unwrap().job;
        let ask = async |step: &str| handle(&stack, json!({ "step": step, "job_id": job.id })).await.unwrap();
        let (looked, inspected) = (ask("look").await, ask("inspect").await);
        let ranges = inspected["ranges"].as_array().unwrap();
        let count: u64 = ranges.iter().map(|range| range["count"].as_u64().unwrap()).sum();
        assert!(count >= 10_000, "{count} pages");
        // With what Plan adds to it: where the messages are, not the messages.
        let planned = json!({ "state": "APPROVED", "ai_pages": count, "manifest": "m".repeat(200), "queue_url": "q".repeat(200) });
        let state =
            json!({ "job_id": job.id, "job": looked, "document": inspected, "planned": { "plan": planned } });
        let bytes = state.to_string().len();
        assert!(bytes + AROUND < MOST, "{bytes} bytes for {} ranges", ranges.len());
        // What the two maps over ranges end with: nothing, once for each.
        let ended = Value::from(vec![json!({}); ranges.len()]).to_string().len();
        assert!(ended + AROUND < MOST, "{ended} bytes for {} ranges", ranges.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pages_message_whatever_its_text_is_made_of() {
    let harness = Harness::new(&[("AI_PAGES", "all")]);
    let process = harness.start("a");
    let stack = stack(&process, NOWHERE).await;
    let mut document = FakeDocument::mixed(4);
    // JSON needs six bytes for each character of the first: more than a state takes.
    document.pages[0].text = "\u{1}".repeat(60_000);
    document.pages[2].text = "words ".repeat(100_000);
    let id = process.submit(&document).await.unwrap().job.id;
    let ask = async |step: Value| support::ask(&stack, &id, step).await;
    let ranges = ask(json!({ "step": "inspect" })).await["ranges"].clone();
    ask(json!({ "step": "read_text", "range": ranges[0] })).await;
    ask(json!({ "step": "render", "range": ranges[0] })).await;
    let queue_url = ask(json!({ "step": "plan" })).await["queue_url"].clone();
    let job = process.job(&id).await;
    assert_eq!(job.received.options.ai_pages, AiPages::All);
    let messages = plan::manifest(&process.app, job.plan.as_ref().unwrap()).await.unwrap();
    let pages: Vec<PageNumber> = messages.iter().map(|message| message.page_id).collect();
    assert_eq!(pages.len(), 4, "{pages:?}");
    for mut message in messages {
        message.task_token = Some(TaskToken::new("t".repeat(TOKEN)));
        let item = json!({ "page": message, "queue_url": queue_url }).to_string().len();
        assert!(item + AROUND < MOST, "page {} has {item} bytes", message.page_id);
    }
}
