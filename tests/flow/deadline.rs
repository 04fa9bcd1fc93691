//! Jobs that reach their deadline.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    finish::heal,
    job::{State, cancel::cancel},
    ports::clock::Clock,
    source::Source,
};
use everypage_testkit::{
    pdf::{FakeDocument, FakePdf},
    vision::Reply,
};
use everypage_tests::{
    harness::{Harness, seconds},
    invariants,
};

use crate::sources;

#[tokio::test(start_paused = true)]
async fn a_hanging_provider_delays_a_job_to_its_deadline_and_loses_no_page() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(100)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(seconds(harness.clock.as_ref()) < 11.0, "{}", seconds(harness.clock.as_ref()));
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 100).await;
    let metadata = process.result(&job).await.metadata;
    assert!(metadata.timeout_occurred);
    assert_eq!(metadata.final_timeout_fallback_pages, 50);
    // The remaining messages are settled without model calls.
    let calls = harness.vision.calls().len();
    process.work_for(Duration::from_secs(120)).await;
    assert_eq!(harness.vision.calls().len(), calls);
    assert!(harness.queue.is_empty());
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_during_rendering_loses_no_text_and_can_be_healed() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s"), ("RANGE_PAGES", "4")]);
    harness.pdf = Arc::new(FakePdf::slow(harness.clock.clone(), Duration::from_secs(3)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(12)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 12).await;
    let document = process.result(&job).await;
    assert_eq!(sources(&document), [Source::MUPDF, Source::MUPDF_TIMEOUT_FALLBACK].repeat(6));
    assert!(document.pages.iter().all(|page| page.has_text));
    let sent = heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent.len(), 6);
    process.work_for(Duration::from_secs(10)).await;
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 6);
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_is_not_opened_in_time_is_published_when_its_text_is_read() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    harness.pdf = Arc::new(FakePdf::slow_to_open(harness.clock.clone(), Duration::from_secs(40)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    let document = process.result(&job).await;
    assert!(document.metadata.timeout_occurred);
    assert!(document.pages.iter().all(|page| page.has_text));
    assert_eq!(sources(&document), [Source::MUPDF, Source::MUPDF_TIMEOUT_FALLBACK].repeat(2));
    let took = seconds(harness.clock.as_ref());
    assert!((50.0..52.0).contains(&took), "opened once more after the deadline: {took}");
    assert!(harness.vision.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_document_that_is_not_opened_does_not_wait_for_its_parser() {
    let mut harness = Harness::new(&[]);
    harness.pdf = Arc::new(FakePdf::slow_to_open(harness.clock.clone(), Duration::from_secs(40)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    let cancel = async {
        harness.clock.sleep(Duration::from_secs(5)).await;
        cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = cancel => unreachable!() };
    assert_eq!(job.state, State::Cancelled);
    assert!(seconds(harness.clock.as_ref()) < 7.0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_no_process_ran_loses_no_text() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "10s")]);
    // Accepted, and its process was killed before it opened the document.
    let id = harness.start("a").submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    harness.advance(Duration::from_secs(60)).await;
    let process = harness.start("b");
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 4).await;
    let document = process.result(&job).await;
    assert!(document.pages.iter().all(|page| page.has_text));
    assert_eq!(sources(&document), [Source::MUPDF, Source::MUPDF_TIMEOUT_FALLBACK].repeat(2));
}
