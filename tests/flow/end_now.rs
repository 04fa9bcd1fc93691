//! Jobs whose caller wants the result now.

use std::time::Duration;

use everypage_core::{
    event::Aggregate,
    events::trail,
    job::{State, end_now::end_now},
    source::Source,
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, Process, seconds},
    invariants,
};

use crate::sources;

async fn end(process: &Process, id: &everypage_core::ids::JobId) -> everypage_core::job::Job {
    let app = &process.app;
    end_now(&app.store, app.flow.as_ref(), &app.interrupts, id, "test").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_ended_now_publishes_what_is_there() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| match page {
        2 => Reply::Answer(read_by(target, page)),
        _ => Reply::Hang,
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(6)).await.unwrap().job.id;
    let taking = async {
        harness.advance(Duration::from_secs(3)).await;
        end(&process, &id).await;
    };
    let (job, ()) = tokio::join!(process.finish(&id), taking);
    assert!(seconds(harness.clock.as_ref()) < 5.0, "{}", seconds(harness.clock.as_ref()));
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 6).await;
    let document = process.result(&job).await;
    let late = Source::MUPDF_TIMEOUT_FALLBACK;
    let mupdf = Source::MUPDF;
    assert_eq!(sources(&document), [mupdf, Source::AI, mupdf, late, mupdf, late]);
    assert!(document.metadata.timeout_occurred);
    let events = trail::read(&process.app.store, &Aggregate::Job(id.clone())).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let moved = kinds.iter().position(|kind| *kind == "job.deadline_moved").unwrap();
    assert_eq!(kinds[moved + 1], "job.deadline_reached");
    assert_eq!(events[moved].data["by"], "test");
    invariants::trail_verifies(&process.app, &job).await;
    // Once more changes nothing.
    assert_eq!(end(&process, &id).await, job);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_text_is_not_read_is_not_ended() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let before = process.job(&id).await;
    assert_eq!(end(&process, &id).await, before);
    assert_eq!((before.state, before.halt), (State::Acked, None));
    assert_eq!(process.finish(&id).await.halt, None);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_needs_approval_can_be_ended() {
    let harness = Harness::new(&[("APPROVAL_THRESHOLD_USD", "0.000001")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    process.kill_after(&id, Duration::from_secs(1)).await;
    end(&process, &id).await;
    // Another process publishes it.
    let process = harness.start("b");
    let job = process.finish(&id).await;
    assert!(seconds(harness.clock.as_ref()) < 5.0);
    invariants::result_is_whole(&process.app, &job, 2).await;
    assert!(harness.vision.calls().is_empty());
}
