//! Deadlines that move, clocks that differ, and time that is not the job's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use everypage_core::{
    domain::{
        ids::JobId,
        job::{Job, State},
        outcome::{AttemptResult, Source},
        result::{Cause, ResultDocument},
    },
    ports::{blobs::Blobs, clock::after, vision::Finish},
    usecases::{decide::modify, finalize::finalize, heal, plan, prepare},
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

/// Finishes a job whose deadline somebody sets anew, ten seconds after it was proposed.
async fn modified(process: &Process, id: &JobId, left: Duration) -> (Job, ResultDocument) {
    let person = async {
        process.app.clock.sleep(Duration::from_secs(10)).await;
        let deadline = after(process.app.clock.now(), left);
        modify(&process.app, id, "ann", |job| job.deadline = deadline).await.unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(id) => job, () = person => unreachable!() };
    invariants::succeeded(&job);
    let document = process.result(&job).await;
    (job, document)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_a_person_moves_is_the_one_that_counts() {
    let pairs = [("APPROVAL_THRESHOLD_USD", "0.001"), ("JOB_TIMEOUT", "60s"), ("REQUEST_TIMEOUT", "300s")];
    let harness = Harness::new(&pairs);
    harness.vision.set_behaviour(|target, page| Reply::AnswerAfter(MINUTE, read_by(target, page)));
    let process = harness.start("a");
    // Later: models have their time.
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    let (_, document) = modified(&process, &id, 5 * MINUTE).await;
    assert_eq!((document.metadata.final_ai_pages, document.metadata.timeout_occurred), (4, false));
    // Sooner: it ends then, and says why.
    let began = seconds(harness.clock.as_ref());
    let id = process.submit(&FakeDocument::graphics(5)).await.unwrap().job.id;
    let (_, document) = modified(&process, &id, Duration::from_secs(20)).await;
    assert!(document.metadata.timeout_occurred);
    assert_eq!(document.metadata.final_timeout_fallback_pages, 5);
    let took = seconds(harness.clock.as_ref()) - began;
    assert!((30.0..32.0).contains(&took), "{took}");
}

/// A job of which no page was sent yet.
async fn approved(harness: &Harness, pages: u32) -> (Process, JobId) {
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    let job = process.job(&id).await;
    for range in prepare::inspect(&process.app, &job).await.unwrap() {
        prepare::read_range(&process.app, &job, &range).await.unwrap();
        prepare::render_range(&process.app, &job, &range).await.unwrap();
    }
    let job = prepare::understand(&process.app, &job).await.unwrap();
    assert_eq!(plan::propose(&process.app, &job).await.unwrap().state, State::Approved);
    (process, id)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_not_come_ends_nothing() {
    let harness = Harness::new(&[]);
    let (process, id) = approved(&harness, 2).await;
    let job = finalize(&process.app, &id, Cause::Deadline).await.unwrap();
    assert_eq!((job.state, job.halt), (State::Approved, None), "whoever asked went by an older deadline");
    harness.advance(Duration::from_secs(296)).await;
    // A clock may be off by seconds.
    let job = finalize(&process.app, &id, Cause::Deadline).await.unwrap();
    assert_eq!(job.state, State::Audited);
}

#[tokio::test(start_paused = true)]
async fn pages_that_a_worker_with_a_fast_clock_left_to_the_deadline_say_so() {
    let harness = Harness::new(&[]);
    let (process, id) = approved(&harness, 2).await;
    harness.advance(Duration::from_secs(298)).await;
    // All tokens were answered, by workers for whom the deadline had come.
    let job = finalize(&process.app, &id, Cause::Settled).await.unwrap();
    let document = process.result(&job).await;
    assert!(document.metadata.timeout_occurred);
    assert_eq!(document.metadata.final_timeout_fallback_pages, 2);
}

#[tokio::test(start_paused = true)]
async fn healing_keeps_what_a_page_went_through_and_has_time_of_its_own() {
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "100")]);
    let process = harness.start("a");
    harness.vision.set_behaviour(|_, _| Reply::Finish(Finish::Refusal, String::new()));
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let first = process.result(&job).await;
    assert_eq!(first.pages[0].attempts.len(), 4);
    let cost = first.metadata.cost_micro_usd;
    assert!(cost.0 > 0, "refusals are paid for");

    // One page is read, the other has no answer in the time that healing has.
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::Answer(read_by(target, page)),
        _ => Reply::Hang,
    });
    heal::send(&process.app, &id, MINUTE).await.unwrap();
    process.work_for(2 * MINUTE).await;
    let job = process.job(&id).await;
    let second = process.result(&job).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert!(!second.metadata.timeout_occurred, "the job's deadline never came");
    let (read, fell_back) = (&second.pages[0], &second.pages[1]);
    assert_eq!((read.source, fell_back.source), (Source::Ai, Source::MupdfFallback));
    assert_eq!(read.attempts[..4], first.pages[0].attempts[..]);
    assert_eq!(read.attempts.last().unwrap().result, AttemptResult::Answered);
    assert!(second.metadata.cost_micro_usd > cost, "what the first run cost is part of it");
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn who_can_open_no_document_does_not_fetch_it_either() {
    let mut harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    harness.advance(6 * MINUTE).await;
    harness.blobs.delete_all(&format!("jobs/{id}/source.pdf")).await.unwrap();
    harness.pdf = Arc::new(FakePdf::absent());
    let error = finalize(&harness.start("finalize").app, &id, Cause::Deadline).await.unwrap_err();
    assert_eq!(error.code(), "deadline", "{error}");
}
