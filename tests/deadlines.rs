//! Deadlines that a user changes, clocks that differ, and the separate deadline of healing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use everypage_core::{
    finish::{
        finalize::finalize,
        heal,
        result::{Cause, ResultDocument},
    },
    ids::JobId,
    job::{Job, State},
    plan::{decide::modify, propose},
    ports::{blobs::Blobs, vision::Finish},
    prepare,
    read::outcome::CallResult,
    source::Source,
    time::after,
};
use everypage_testkit::{
    pdf::{FakeDocument, FakePdf},
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process, seconds},
    invariants,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Finishes a job whose deadline a user changes, ten seconds after it was proposed.
async fn modified(process: &Process, id: &JobId, remaining: Duration) -> (Job, ResultDocument) {
    let user = async {
        process.app.store.clock.sleep(Duration::from_secs(10)).await;
        let deadline = after(process.app.store.clock.now(), remaining);
        modify(&process.app.planner, id, "ann", |job| job.deadline = deadline).await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(id) => job, () = user => unreachable!() };
    invariants::succeeded(&job);
    let document = process.result(&job).await;
    (job, document)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_a_user_changes_is_the_one_that_counts() {
    let pairs = [
        ("APPROVAL_THRESHOLD_USD", "0.001"),
        ("JOB_TIMEOUT", "60s"),
        ("REQUEST_TIMEOUT", "300s"),
        ("HEDGE", "off"),
    ];
    let harness = Harness::new(&pairs);
    harness.vision.set_behaviour(|target, page| Reply::AnswerAfter(MINUTE, read_by(target, page)));
    let process = harness.start("a");
    // A later deadline: the models have enough time.
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    let (_, document) = modified(&process, &id, 5 * MINUTE).await;
    assert_eq!((document.metadata.final_ai_pages, document.metadata.timeout_occurred), (4, false));
    // An earlier deadline: the job ends then, and reports the timeout.
    let started = seconds(harness.clock.as_ref());
    let id = process.submit(&FakeDocument::graphics(5)).await.unwrap().job.id;
    let (_, document) = modified(&process, &id, Duration::from_secs(20)).await;
    assert!(document.metadata.timeout_occurred);
    assert_eq!(document.metadata.final_timeout_fallback_pages, 5);
    let took = seconds(harness.clock.as_ref()) - started;
    assert!((30.0..32.0).contains(&took), "{took}");
}

/// An approved job none of whose pages was sent yet.
async fn approved(harness: &Harness, pages: u32) -> (Process, JobId) {
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    let job = process.job(&id).await;
    for range in prepare::inspect(&process.app.preparer, &job).await.unwrap() {
        prepare::read_range(&process.app.preparer, &job, &range).await.unwrap();
        prepare::render_range(&process.app.preparer, &job, &range).await.unwrap();
    }
    let job = prepare::understand(&process.app.preparer, &job).await.unwrap();
    assert_eq!(propose::propose(&process.app.planner, &job).await.unwrap().state, State::Approved);
    (process, id)
}

#[tokio::test(start_paused = true)]
async fn finalize_before_the_deadline_does_not_end_a_job() {
    let harness = Harness::new(&[]);
    let (process, id) = approved(&harness, 2).await;
    let job = finalize(&process.app.finisher, &id, Cause::Deadline).await.unwrap();
    assert_eq!((job.state, job.halt), (State::Approved, None), "the caller used an older deadline");
    harness.advance(Duration::from_secs(296)).await;
    // Clocks may differ by seconds.
    let job = finalize(&process.app.finisher, &id, Cause::Deadline).await.unwrap();
    assert_eq!(job.state, State::Audited);
}

#[tokio::test(start_paused = true)]
async fn pages_that_a_worker_with_a_fast_clock_gave_up_are_reported_as_timeouts() {
    let harness = Harness::new(&[]);
    let (process, id) = approved(&harness, 2).await;
    harness.advance(Duration::from_secs(298)).await;
    // All tokens were answered, by workers for which the deadline had passed.
    let job = finalize(&process.app.finisher, &id, Cause::Settled).await.unwrap();
    let document = process.result(&job).await;
    assert!(document.metadata.timeout_occurred);
    assert_eq!(document.metadata.final_timeout_fallback_pages, 2);
}

#[tokio::test(start_paused = true)]
async fn healing_keeps_a_pages_model_calls_and_has_its_own_deadline() {
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "100")]);
    let process = harness.start("a");
    harness.vision.set_behaviour(|_, _| Reply::Finish(Finish::Refusal, String::new()));
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let first = process.result(&job).await;
    assert_eq!(first.pages[0].calls.len(), 4);
    let cost = first.metadata.cost_micro_usd;
    assert!(cost.0 > 0, "refusals are paid for");

    // One page is read, the other gets no answer before the deadline of the healing.
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::Answer(read_by(target, page)),
        _ => Reply::Hang,
    });
    heal::send(&process.app.finisher, &id, MINUTE).await.unwrap();
    process.work_for(2 * MINUTE).await;
    let job = process.job(&id).await;
    let second = process.result(&job).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert!(!second.metadata.timeout_occurred, "the job's deadline was not reached");
    let (read, fell_back) = (&second.pages[0], &second.pages[1]);
    assert_eq!((read.source, fell_back.source), (Source::AI, Source::MUPDF_FALLBACK));
    assert_eq!(read.calls[..4], first.pages[0].calls[..]);
    assert_eq!(read.calls.last().unwrap().result, CallResult::Answered);
    assert!(second.metadata.cost_micro_usd > cost, "it includes the cost of the first run");
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_without_a_pdf_reader_does_not_fetch_the_document() {
    let mut harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    harness.advance(6 * MINUTE).await;
    harness.blobs.delete_all(&format!("jobs/{id}/source.pdf")).await.unwrap();
    harness.pdf = Arc::new(FakePdf::absent());
    let error = finalize(&harness.start("finalize").app.finisher, &id, Cause::Deadline).await.unwrap_err();
    assert_eq!(error.code(), "not_opened", "{error}");
}
