//! The sweep that runs every minute and finds work that was lost between two steps, and the queue's own
//! redrive, which does not know dead letters.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    dead_letters::{self, purge},
    events::nodes,
    ids::{JobId, Priority},
    job::{State, cancel::cancel},
    notify::relay,
    plan::decide::{Decision, decide},
    ports::{
        blobs::Blobs,
        clock::Clock,
        queue::{Outgoing, Queue},
        records::Records,
        vision::VisionError,
    },
    recover::{
        redrive::redrive,
        sweep::{NODE_TIMEOUT, sweep},
    },
    source::Source,
    time::within,
};
use everypage_testkit::{
    faulty::{Faults, Faulty, Mode},
    memory::{MemoryQueue, MemoryRecords},
    pdf::{FakeDocument, FakePdf},
    vision::Reply,
};
use everypage_tests::{harness::Harness, invariants};

const MINUTE: Duration = Duration::from_secs(60);

/// A harness whose queue has a dead-letter queue, like SQS.
fn harness(pairs: &[(&str, &str)]) -> Harness {
    let mut harness = Harness::with_faults(pairs, Faults::none(), false);
    harness.queue = Arc::new(MemoryQueue::with_dead_letter_queue(harness.clock.clone(), 3));
    harness
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_flow_was_killed_is_finalized_after_its_deadline() {
    let harness = harness(&[("JOB_TIMEOUT", "10s")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(10)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(5)).await.is_none());
    let process = harness.start("b");
    assert_eq!(sweep(&process.app.recovery).await.finalized, 0, "its flow may still do it");
    harness.clock.sleep(MINUTE).await;
    assert_eq!(sweep(&process.app.recovery).await.finalized, 1);
    let job = process.job(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 10).await;
    assert!(process.result(&job).await.metadata.timeout_occurred);
    assert_eq!(sweep(&process.app.recovery).await.finalized, 0, "it is finalized once");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_never_opened_is_read_late_and_a_cancelled_one_is_cancelled() {
    let mut harness = harness(&[("JOB_TIMEOUT", "10s")]);
    harness.pdf = Arc::new(FakePdf::absent());
    let process = harness.start("a");
    let lost = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let dropped = process.submit(&FakeDocument::mixed(3)).await.unwrap().job.id;
    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &dropped, "ann")
        .await
        .unwrap();
    harness.clock.sleep(MINUTE).await;
    let swept = sweep(&process.app.recovery).await;
    assert_eq!((swept.finalized, swept.started, swept.faults), (1, 0, 0), "its own flow may open it");
    assert_eq!(process.job(&dropped).await.state, State::Cancelled);
    harness.clock.sleep(2 * MINUTE).await;
    let swept = sweep(&process.app.recovery).await;
    assert_eq!((swept.finalized, swept.started, swept.faults), (0, 1, 0));
    assert_eq!(process.job(&lost).await.state, State::Acked);
    assert_eq!(dead_letters::waiting(&process.app.store, 10).await.unwrap(), vec![]);
    // A process with a parser opens it, however late.
    harness.pdf = Arc::new(FakePdf::default());
    let process = harness.start("b");
    let job = process.finish(&lost).await;
    invariants::succeeded(&job);
    let metadata = job.result.unwrap().metadata;
    assert_eq!((metadata.total_pages, metadata.timeout_occurred), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_whose_flow_was_killed_does_not_wait_for_its_deadline() {
    let harness = harness(&[("JOB_TIMEOUT", "1h")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(5)).await.is_none());
    let process = harness.start("b");
    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann").await.unwrap();
    assert_eq!(sweep(&process.app.recovery).await.finalized, 0, "its flow may still do it");
    harness.clock.sleep(MINUTE).await;
    assert_eq!(sweep(&process.app.recovery).await.finalized, 1);
    let job = process.job(&id).await;
    assert_eq!((job.state, job.result.is_some()), (State::Cancelled, true));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_accepted_but_never_started_is_started() {
    let harness = harness(&[]);
    let process = harness.start("a");
    process.submit(&FakeDocument::mixed(2)).await.unwrap();
    assert_eq!(sweep(&process.app.recovery).await.started, 0, "its flow may be about to start");
    harness.clock.sleep(MINUTE).await;
    assert_eq!(sweep(&process.app.recovery).await.started, 1);
}

/// Kills every worker of page 1 until the queue moves its message to the dead-letter queue; the other
/// pages are read.
async fn poisoned(harness: &Harness) -> (JobId, everypage_tests::harness::Process) {
    harness.vision.set_behaviour(|target, page| {
        if page == 1 { Reply::Hang } else { Reply::Answer(everypage_testkit::vision::read_by(target, page)) }
    });
    let id = harness.start("a").submit(&FakeDocument::graphics(3)).await.expect("accepted").job.id;
    for node in ["a", "b", "c"] {
        // Each is killed during page 1, whose message is visible again after its visibility timeout.
        harness.start(node).kill_after(&id, Duration::from_secs(30)).await;
        harness.clock.sleep(MINUTE).await;
    }
    let process = harness.start("d");
    process.work_for(Duration::from_secs(1)).await;
    assert_eq!((harness.queue.len(), harness.queue.dead_letter_count()), (0, 1));
    (id, process)
}

#[tokio::test(start_paused = true)]
async fn a_message_in_the_dead_letter_queue_becomes_a_dead_letter_and_its_page_falls_back() {
    let harness = harness(&[("JOB_TIMEOUT", "1h")]);
    let (id, process) = poisoned(&harness).await;
    assert_eq!(sweep(&process.app.recovery).await.dead_letters, 1);
    assert_eq!(sweep(&process.app.recovery).await.dead_letters, 0, "it has a dead letter already");
    assert_eq!(harness.queue.dead_letter_count(), 1, "it stays where the queue's own tools see it");
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].value.reason.contains("delivered 3 times"), "{}", dead_letters[0].value.reason);
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    let result = process.result(&job).await;
    assert_eq!(result.pages[0].source, Source::MUPDF_FALLBACK);
    assert_eq!(result.pages[1].source, Source::AI);

    // Our redrive heals the result, and the copy in the dead-letter queue is deleted.
    harness
        .vision
        .set_behaviour(|target, page| Reply::Answer(everypage_testkit::vision::read_by(target, page)));
    harness.clock.sleep(10 * MINUTE).await;
    redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    process.work_for(Duration::from_secs(10)).await;
    let job = process.job(&id).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    sweep(&process.app.recovery).await;
    assert_eq!((harness.queue.len(), harness.queue.dead_letter_count()), (0, 0));
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

/// Lambda takes messages off a queue before it has capacity for a worker.
#[tokio::test(start_paused = true)]
async fn a_message_that_no_worker_saw_is_sent_again() {
    let harness = harness(&[("JOB_TIMEOUT", "1h")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let clock = process.app.store.clock.clone();
    within(clock.as_ref(), Duration::from_secs(1), process.driver.drive(&id)).await;
    for _ in 0..4 {
        harness.queue.receive(10, Duration::from_secs(1)).await.unwrap();
        harness.clock.sleep(Duration::from_secs(2)).await;
    }
    assert_eq!((harness.queue.len(), harness.queue.dead_letter_count()), (0, 1));
    assert_eq!(sweep(&process.app.recovery).await.dead_letters, 0);
    assert_eq!((harness.queue.len(), harness.queue.dead_letter_count()), (1, 0));
    process.work_for(Duration::from_secs(10)).await;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 1);
}

#[tokio::test(start_paused = true)]
async fn the_queues_own_redrive_also_heals_the_result() {
    let harness = harness(&[("JOB_TIMEOUT", "1h")]);
    let (id, process) = poisoned(&harness).await;
    sweep(&process.app.recovery).await;
    process.finish(&id).await;
    harness.clock.sleep(10 * MINUTE).await;
    // Redriven while the model still hangs: it becomes a dead letter again, with a higher redrive count.
    harness.queue.redrive_all();
    for node in ["e", "f", "g"] {
        harness.start(node).work_for(Duration::from_secs(30)).await;
        assert!(dead_letters::waiting(&process.app.store, 10).await.unwrap().is_empty(), "it was redriven");
        harness.clock.sleep(MINUTE).await;
    }
    process.work_for(Duration::from_secs(1)).await;
    assert_eq!(harness.queue.dead_letter_count(), 1);
    assert_eq!(sweep(&process.app.recovery).await.dead_letters, 1);
    assert_eq!(process.job(&id).await.result.unwrap().version, 1);

    harness
        .vision
        .set_behaviour(|target, page| Reply::Answer(everypage_testkit::vision::read_by(target, page)));
    harness.clock.sleep(10 * MINUTE).await;
    harness.queue.redrive_all();
    process.work_for(Duration::from_secs(10)).await;
    let job = process.job(&id).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert!(process.result(&job).await.pages.iter().all(|page| page.source == Source::AI));
    assert_eq!((harness.queue.len(), harness.queue.dead_letter_count()), (0, 0));
    assert!(dead_letters::waiting(&process.app.store, 10).await.unwrap().is_empty());
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_redelivered_message_of_a_dead_letter_stays_a_dead_letter() {
    let harness = harness(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let delete_images = async {
        loop {
            harness.blobs.delete_all(&format!("jobs/{id}/pages/")).await.unwrap();
            process.app.store.clock.sleep(Duration::from_micros(1)).await;
        }
    };
    tokio::select! { biased; job = process.finish(&id) => invariants::succeeded(&job), () = delete_images => unreachable!() };
    assert_eq!(
        harness.queue.dead_letter_count(),
        0,
        "a dead letter alone puts nothing into the dead-letter queue"
    );
    // Its worker was killed before it deleted the message, which is delivered again.
    let dead_letter = dead_letters::waiting(&process.app.store, 1).await.unwrap().remove(0).value;
    let body = dead_letter.message.clone().unwrap();
    let again = Outgoing {
        name: "again".into(),
        job: id.clone(),
        lane: Priority::Normal,
        body,
        delay: Duration::ZERO,
    };
    harness.queue.send(&[again]).await.unwrap();
    let first = harness.queue.receive(1, Duration::ZERO).await.unwrap();
    assert_eq!(first.len(), 1);
    process.work_for(Duration::from_secs(5)).await;
    assert!(harness.queue.is_empty());
    assert!(
        dead_letters::find(&process.app.store, &dead_letter.id).await.unwrap().unwrap().value.is_waiting()
    );
    assert_eq!(process.job(&id).await.result.unwrap().version, 1);
}

#[tokio::test(start_paused = true)]
async fn unreadable_messages_in_the_dead_letter_queue_become_dead_letters() {
    let harness = harness(&[]);
    let process = harness.start("a");
    harness.queue.put_dead_letter(Priority::High, "not json");
    harness.queue.put_dead_letter(Priority::High, "not json");
    assert_eq!(sweep(&process.app.recovery).await.dead_letters, 1);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].value.reason.contains("can't be parsed"), "{}", dead_letters[0].value.reason);

    // Once purged, the next sweep deletes them.
    assert_eq!(harness.queue.dead_letter_count(), 2);
    purge(&process.app.store, &dead_letters[0].value.id, "ann").await.unwrap();
    sweep(&process.app.recovery).await;
    assert_eq!(harness.queue.dead_letter_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_process_without_a_heartbeat_are_published() {
    let harness = harness(&[]);
    let gone = harness.start("gone");
    nodes::record_heartbeat(&gone.app.store).await.unwrap();
    gone.submit(&FakeDocument::mixed(2)).await.unwrap();
    let (stored, process) = (3, harness.start("b"));
    nodes::record_heartbeat(&process.app.store).await.unwrap();
    assert_eq!(
        relay::relay_silent(&process.app.publisher, NODE_TIMEOUT).await.unwrap(),
        0,
        "the process may still publish them"
    );
    harness.clock.sleep(NODE_TIMEOUT).await;
    nodes::record_heartbeat(&process.app.store).await.unwrap();
    assert_eq!(sweep(&process.app.recovery).await.events, stored);
    assert_eq!(harness.bus.events().len(), stored);
    assert_eq!(sweep(&process.app.recovery).await.events, 0);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_process_whose_heartbeats_failed_are_published() {
    let harness = harness(&[]);
    // The first heartbeat and all its retries are refused.
    let records: Arc<dyn Records> = harness.records.clone();
    let gone = harness.start_on("gone", Arc::new(Faulty::new(records, Faults::at(0, 4, Mode::Refuse))));
    assert!(nodes::record_heartbeat(&gone.app.store).await.is_err());
    gone.submit(&FakeDocument::mixed(2)).await.unwrap();
    harness.clock.sleep(NODE_TIMEOUT).await;
    // Deleted as silent, although it stores more events before it dies.
    let process = harness.start("b");
    assert_eq!(sweep(&process.app.recovery).await.events, 3);
    gone.submit(&FakeDocument::mixed(3)).await.unwrap();
    harness.clock.sleep(NODE_TIMEOUT).await;
    assert_eq!(sweep(&process.app.recovery).await.events, 3);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_did_not_wake_the_flow_is_signalled_again() {
    let harness = harness(&[("APPROVAL_THRESHOLD_USD", "0.001")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(5)).await.is_none());
    assert_eq!(process.job(&id).await.state, State::Proposed);
    decide(&process.app.planner, &id, "ann", Decision::Approve).await.unwrap();
    assert_eq!(sweep(&process.app.recovery).await.reminded, 0, "it was signalled a moment ago");
    harness.clock.sleep(Duration::from_secs(31)).await;
    assert_eq!(sweep(&process.app.recovery).await.reminded, 1);
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(sweep(&process.app.recovery).await.reminded, 0, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn many_jobs_are_repaired_concurrently_despite_a_lagging_index() {
    let mut harness = harness(&[("JOB_TIMEOUT", "10s")]);
    harness.records = Arc::new(MemoryRecords::lagging(harness.clock.clone(), Duration::from_secs(300)));
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let mut ids = Vec::new();
    for pages in 1..=20 {
        let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
        process.kill_after(&id, Duration::from_secs(5)).await;
        ids.push(id);
    }
    // One ended after the index was written.
    harness.clock.sleep(Duration::from_secs(300)).await;
    process.finish(&ids[0]).await;
    assert_eq!(sweep(&harness.start("b").app.recovery).await.finalized, 19);
    for (id, pages) in ids.iter().zip(1..) {
        let job = process.job(id).await;
        invariants::succeeded(&job);
        invariants::result_is_whole(&process.app, &job, pages).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_dead_lettered_message_is_not_a_redrive() {
    let harness = harness(&[("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    let dead_letter = dead_letters::waiting(&process.app.store, 1).await.unwrap().remove(0).value;
    let calls = harness.vision.calls().len();
    // The flow sent the message twice because the first reply was lost.
    let body = dead_letter.message.clone().unwrap();
    let copy = Outgoing {
        name: "copy".into(),
        job: id.clone(),
        lane: Priority::Normal,
        body,
        delay: Duration::ZERO,
    };
    harness.queue.send(&[copy]).await.unwrap();
    harness.clock.sleep(10 * MINUTE).await;
    process.work_for(Duration::from_secs(5)).await;
    assert!(harness.queue.is_empty());
    assert_eq!(harness.vision.calls().len(), calls, "no model is called and paid again");
    assert!(
        dead_letters::find(&process.app.store, &dead_letter.id).await.unwrap().unwrap().value.is_waiting()
    );
}
