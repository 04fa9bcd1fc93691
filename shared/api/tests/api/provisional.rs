//! The result at any time: before a job is published, the document as it stands.

use std::time::Duration;

use everypage_core::{
    document::Reason,
    ids::JobId,
    money::MicroUsd,
    ports::clock::Clock,
    providers::target::{Provider, Target},
    read::{
        outcome::{CallResult, ModelCall},
        waiting::{WaitReason, Waiting},
    },
    time::after,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use serde_json::{Value, json};

use crate::support::{Answer, Service, other_tenant, user};

/// A job whose process was killed: of eight pages, 1, 3, 5 and 7 keep MuPDF's text, AI has read 2 and 4,
/// page 6 is being read, and page 8, which has no text layer, waits.
async fn halfway() -> (Service, String) {
    let service = Service::new(&[("WORKER_CONCURRENCY", "1")]);
    service.harness.vision.set_behaviour(|target, page| match page {
        2 | 4 => Reply::Answer(read_by(target, page)),
        _ => Reply::AnswerAfter(Duration::from_secs(100), read_by(target, page)),
    });
    let mut document = FakeDocument::mixed(8);
    document.pages[7].reason = Reason::NoTextLayer;
    document.pages[7].text.clear();
    let id = service.job("", &document).await;
    service.process.kill_after(&JobId::new(&id), Duration::from_secs(10)).await;
    make_page_8_wait(&service, &id).await;
    (service, id)
}

async fn make_page_8_wait(service: &Service, id: &str) {
    let now = service.harness.clock.now();
    let target = Target::new(Provider::OpenAi, "gpt-5.4");
    let mut call = ModelCall::new(&target, now, 250);
    call.result = CallResult::Exhausted;
    call.cost_micro_usd = MicroUsd(7);
    let until = after(now, Duration::from_secs(20));
    let waiting = Waiting { until, reason: WaitReason::RateLimited, target, rounds: 2 };
    service.process.make_page_wait(&JobId::new(id), 8, waiting, call).await;
}

async fn provisional(service: &Service, id: &str) -> Answer {
    service.get(user(), &format!("/v1/jobs/{id}/result?provisional=true&format=json")).await
}

/// One field of every page.
fn of_pages(answer: &Answer, field: &str) -> Vec<String> {
    let pages = answer.at("/pages");
    let pages = pages.as_array().expect("a list of pages");
    pages.iter().map(|page| page[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_page_has_the_best_text_so_far_and_its_status() {
    let (service, id) = halfway().await;
    let answer = provisional(&service, &id).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("everypage-result-provisional"), "true");
    assert_eq!((answer.header("etag"), answer.header("cache-control")), ("", "no-store"));
    assert_eq!((answer.at("/provisional"), answer.at("/version")), (true.into(), 0.into()));
    let texts = of_pages(&answer, "text");
    assert!(texts[1].starts_with("page 2 read by") && texts[3].starts_with("page 4 read by"), "{texts:?}");
    for own in [1, 3, 5, 6, 7] {
        assert_eq!(texts[own - 1], format!("layer of page {own}"));
    }
    assert_eq!(texts[7], "[Page 8 - text not available]");
    assert_eq!(
        of_pages(&answer, "status"),
        ["settled", "settled", "settled", "settled", "settled", "working", "settled", "waiting"]
    );
    // A page that is not settled has not fallen back.
    let sources = of_pages(&answer, "source");
    assert_eq!(sources, ["mupdf", "ai", "mupdf", "ai", "mupdf", "mupdf", "mupdf", "mupdf"]);
    let waiting = answer.at("/pages/7/waiting");
    assert_eq!(
        waiting,
        json!({"reason": "rate_limited", "until": "2026-11-16T00:00:30Z", "provider": "openai",
            "model": "gpt-5.4", "rounds": 2})
    );
    assert_eq!(answer.at("/pages/7/calls/0/result"), "exhausted");
    assert_eq!(answer.at("/pages/5/waiting"), Value::Null);
    let metadata = answer.at("/metadata");
    assert_eq!((&metadata["ai_pages"], &metadata["pages_done"]), (&json!(4), &json!(2)));
    assert_eq!((&metadata["pages_failed"], &metadata["missing_pages"]), (&json!(0), &json!(1)));
    assert_eq!(metadata["missing_page_numbers"], json!([8]));
    assert_eq!(metadata["timeout_occurred"], false);
}

#[tokio::test(start_paused = true)]
async fn a_provisional_result_has_every_format() {
    let (service, id) = halfway().await;
    let path = format!("/v1/jobs/{id}/result?provisional=true");
    let text = service.get(user(), &path).await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    let text = String::from_utf8_lossy(&text.body).into_owned();
    assert!(text.starts_with("=== Page 1 ===\nlayer of page 1\n\n=== Page 2 ===\npage 2 read by"), "{text}");
    let markdown = service.get(user(), &format!("{path}&format=markdown")).await;
    let markdown = String::from_utf8_lossy(&markdown.body).into_owned();
    assert!(markdown.contains("<!-- page 6: mupdf, working -->"), "{markdown}");
    service.get(user(), &format!("{path}&format=docx")).await.is_problem(422, "bad_options");
    service.get(user(), &format!("{path}&version=1")).await.is_problem(422, "bad_options").says("no version");
    let published = service.get(user(), &format!("/v1/jobs/{id}/result")).await;
    published.is_problem(409, "result_not_ready").says("provisional=true");
}

#[tokio::test(start_paused = true)]
async fn before_the_text_is_read_there_is_no_provisional_result() {
    let service = Service::new(&[]);
    let id = service.job("", &FakeDocument::graphics(1)).await;
    let early = provisional(&service, &id).await;
    early.is_problem(409, "result_not_ready").says("not read yet");
    assert_eq!(early.header("retry-after"), "2");
    // A document without pages never has any.
    let id = service.job("", &FakeDocument::default()).await;
    service.process.finish(&JobId::new(&id)).await;
    provisional(&service, &id).await.is_problem(404, "no_result").says("no pages");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_needs_approval_has_a_provisional_result() {
    let service = Service::new(&[("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let id = service.proposed("", &FakeDocument::mixed(2)).await;
    let answer = provisional(&service, &id).await;
    assert_eq!(of_pages(&answer, "status"), ["settled", "planned"]);
    assert_eq!(of_pages(&answer, "text"), ["layer of page 1", "layer of page 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_published_result_takes_precedence() {
    let (service, id) = halfway().await;
    service.harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    service.harness.start("b").finish(&JobId::new(&id)).await;
    let answer = provisional(&service, &id).await;
    assert_eq!(answer.header("everypage-result-version"), "1");
    assert_eq!((answer.at("/provisional"), answer.at("/pages/7/status")), (Value::Null, Value::Null));
    let published = service.get(user(), &format!("/v1/jobs/{id}/result?format=json")).await;
    assert_eq!((answer.header("etag"), &answer.body), (published.header("etag"), &published.body));
}

#[tokio::test(start_paused = true)]
async fn asking_changes_nothing() {
    let (service, id) = halfway().await;
    let stored = || (format!("{:?}", service.harness.records.dump()), service.harness.blobs.keys());
    let before = stored();
    for format in ["text", "markdown", "json"] {
        let path = format!("/v1/jobs/{id}/result?provisional=true&format={format}");
        assert_eq!(service.get(user(), &path).await.status, 200);
    }
    assert!(before == stored());
}

#[tokio::test(start_paused = true)]
async fn another_tenant_sees_no_provisional_result() {
    let (service, id) = halfway().await;
    let path = format!("/v1/jobs/{id}/result?provisional=true");
    service.get(other_tenant(), &path).await.is_problem(404, "unknown_job");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_page_shows_why_and_until_when() {
    let (service, id) = halfway().await;
    let pages = service.get(user(), &format!("/v1/jobs/{id}/pages")).await;
    let page = &pages.items()[7];
    assert_eq!(
        (&page["status"], &page["waiting"]["reason"], &page["waiting"]["until"]),
        (&json!("waiting"), &json!("rate_limited"), &json!("2026-11-16T00:00:30Z"))
    );
    assert_eq!((&page["waiting"]["model"], &page["waiting"]["rounds"]), (&json!("gpt-5.4"), &json!(2)));
    assert_eq!((&page["calls"][0]["result"], &page["cost_micro_usd"]), (&json!("exhausted"), &json!(7)));
    let working = &pages.items()[5];
    assert_eq!((&working["status"], &working["waiting"]), (&json!("working"), &Value::Null));
    let detail = service.get(user(), &format!("/v1/jobs/{id}/pages/8")).await;
    assert_eq!(detail.text("/waiting/reason"), "rate_limited");
    assert_eq!(detail.at("/calls").as_array().map(Vec::len), Some(1));
}
