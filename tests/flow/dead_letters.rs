//! Jobs, pages and messages that are given up, and their redrive.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    dead_letters::{self, fail::fail},
    document::PageReading,
    finish::{heal, result::Cause, results},
    ids::{JobId, PageNumber, Priority, TenantId},
    job::{Failure, State},
    notices::send,
    ports::{
        blobs::Blobs,
        clock::Clock,
        pdf::{Pdf, PdfError, PdfSource, ReadOptions},
        queue::{Outgoing, Queue},
        vision::VisionError,
    },
    read::dispatch::{Disposition, dispatch},
    recover::redrive,
    secret::Secret,
    source::Source,
    tenants,
};
use everypage_testkit::{
    faulty::Faults,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::{Harness, seconds},
    invariants,
};

use crate::sources;

#[tokio::test(start_paused = true)]
async fn a_failed_document_has_a_reason_and_can_be_redriven() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut document = FakeDocument::graphics(2);
    document.password = Some("open sesame".into());
    let id = process.submit_with(&document, |_| {}, Some("wrong"), None).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(job.state, State::Failed);
    assert_eq!(job.failure.as_ref().unwrap().code, "password_wrong");
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].value.reason.contains("password"));
    assert_eq!(harness.notifier.notices().len(), 1);
    for item in harness.records.dump() {
        assert!(
            !item.draft.body.contains("wrong") || !item.draft.body.contains("sealed"),
            "the password is still stored"
        );
    }

    let secret = Secret::new("open sesame");
    redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", Some(secret)).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 2).await;
    invariants::trail_verifies(&process.app, &job).await;
    assert!(dead_letters::waiting(&process.app.store, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_poison_page_becomes_a_dead_letter_and_its_redrive_heals_the_result() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    // Page 2 fails its worker: its image is missing, which is no model's fault.
    let broken = format!("jobs/{id}/pages/2.jpg");
    let delete_image = async {
        loop {
            harness.blobs.delete_all(&broken).await.unwrap();
            tokio::task::yield_now().await;
            process.app.store.clock.sleep(Duration::from_micros(1)).await;
        }
    };
    let job =
        tokio::select! { biased; job = process.finish(&id) => job, () = delete_image => unreachable!() };
    invariants::succeeded(&job);
    let document = process.result(&job).await;
    assert_eq!(document.pages[1].source, Source::MUPDF_FALLBACK);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].value.reason.contains("pages/2.jpg"), "{}", dead_letters[0].value.reason);
    harness.blobs.put_new(&broken, vec![1]).await.unwrap();
    redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let job = process.job(&id).await;
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert_eq!(sources(&process.result(&job).await), [Source::AI; 3]);
    assert_eq!(process.version(&job, 1).await, document, "a published version never changes");
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
    assert!(
        harness.queue.is_empty() && dead_letters::waiting(&process.app.store, 10).await.unwrap().is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_message_becomes_a_dead_letter_with_its_reason() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    for body in ["not json", r#"{"version":1,"job_id":"x"}"#, r#"{"version":7}"#] {
        let message = Outgoing {
            name: body.into(),
            job: JobId::new("j"),
            lane: Priority::Normal,
            body: body.into(),
            delay: Duration::ZERO,
        };
        harness.queue.send(&[message]).await.unwrap();
    }
    process.work_for(Duration::from_secs(1)).await;
    assert!(harness.queue.is_empty());
    let reasons: Vec<String> = dead_letters::waiting(&process.app.store, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|dead_letter| dead_letter.value.reason)
        .collect();
    assert_eq!(reasons.len(), 3);
    assert!(reasons.iter().any(|reason| reason.contains("document_id")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("version 7")), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partly_readable_message_becomes_its_tenants_dead_letter_and_its_page_falls_back() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
    let tenant = TenantId::new("local");
    let responsible = [("DEFAULT_RESPONSIBLE".to_owned(), Some("ann@example.org".to_owned()))];
    tenants::change(&process.app.tenants, &tenant, &responsible, "test").await.unwrap();
    harness.advance(Duration::from_secs(61)).await;
    // The message arrives without one of its fields.
    let mut delivery = harness.queue.receive(1, Duration::from_secs(60)).await.unwrap().remove(0);
    let mut body: serde_json::Value = serde_json::from_str(&delivery.body).unwrap();
    body.as_object_mut().unwrap().remove("deadline");
    delivery.body = body.to_string();
    let process = harness.start("b");
    let handled = dispatch(&process.app.reader, &delivery);
    let (job, disposition) = futures::future::join(process.driver.drive(&id), handled).await;
    assert_eq!(disposition, Disposition::Done);
    let (job, dead_letter) =
        (job.unwrap(), dead_letters::waiting(&process.app.store, 1).await.unwrap().remove(0).value);
    assert_eq!((&dead_letter.tenant, &dead_letter.correlation_id), (&tenant, &job.correlation_id));
    assert!(dead_letter.reason.contains("deadline"), "{}", dead_letter.reason);
    send::send_due(&process.app.notices).await.unwrap();
    let notified = harness.notifier.notices().remove(0).responsible;
    assert_eq!(notified.as_deref(), Some("ann@example.org"));
    let document = process.result(&job).await;
    assert_eq!(
        (document.pages[0].source, document.metadata.timeout_occurred),
        (Source::MUPDF_FALLBACK, false)
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_tried_again_until_the_deadline_and_leaves_a_dead_letter() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert!(seconds(harness.clock.as_ref()) >= 300.0, "no page is given up before its time is over");
    let expected = [Source::MUPDF_TIMEOUT_FALLBACK; 3];
    assert_eq!(sources(&process.result(&job).await), expected);
    let calls = harness.vision.calls().len();
    assert!((12..400).contains(&calls), "{calls} calls");
    // The messages of the pages come back once more.
    process.work_for(Duration::from_secs(10)).await;
    assert!(harness.queue.is_empty());
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 3);
    assert!(dead_letters.iter().all(|kept| kept.value.reason.contains("HTTP 418")));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_that_passes_costs_no_page() {
    let harness = Harness::new(&[]);
    let clock = harness.clock.clone();
    harness.vision.set_behaviour(move |target, page| match seconds(clock.as_ref()) {
        ..40.0 => Reply::Fail(VisionError::Unknown { detail: "HTTP 405".into() }),
        _ => Reply::Answer(read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(20)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 20);
    assert!(dead_letters::waiting(&process.app.store, 1).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_becomes_a_dead_letter() {
    let harness = Harness::new(&[("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(sources(&process.result(&job).await), [Source::MUPDF_FALLBACK]);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    assert!(dead_letters[0].value.reason.contains("HTTP 418"));
    // Sent again while every model is down: a known error, so the first one makes no second dead letter.
    harness.vision.set_behaviour(|_, _| Reply::down());
    harness.clock.sleep(Duration::from_secs(700)).await;
    heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let again = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!((again.len(), again[0].value.redrive_count), (1, 0), "{:?}", again[0].value.reason);
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.clock.sleep(Duration::from_secs(700)).await;
    redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    let job = process.job(&id).await;
    assert_eq!(sources(&process.result(&job).await), [Source::AI]);
    assert_eq!(job.result.unwrap().version, 2);
}

/// A PDF reader that panics.
struct PanickingPdf;

#[async_trait]
impl Pdf for PanickingPdf {
    async fn inspect(&self, _: PdfSource<'_>, _: Duration) -> Result<u32, PdfError> {
        panic!("a defect")
    }

    async fn read(
        &self,
        _: PdfSource<'_>,
        _: &[PageNumber],
        _: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        panic!("a defect")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_job_with_a_dead_letter_and_a_notice() {
    let mut harness = Harness::new(&[]);
    harness.pdf = Arc::new(PanickingPdf);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!((job.state, job.failure.unwrap().code), (State::Failed, "defect".to_owned()));
    assert_eq!(dead_letters::waiting(&process.app.store, 10).await.unwrap().len(), 1);
    assert_eq!(harness.notifier.notices().len(), 1);
}

/// Fails a job in a process that is killed at call `at`. Returns the number of its calls, the state of the
/// job, and the numbers of dead letters and notices.
async fn fail_until_killed(at: Option<usize>) -> (usize, State, usize, usize) {
    let mut harness = Harness::new(&[]);
    let id = harness.start("a").submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    harness.faults = at.map_or_else(Faults::none, Faults::stop_at);
    let killed = harness.start("b").app;
    let failure = Failure { code: "unreachable".into(), reason: "the disk is full".into() };
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        failed = fail(&killed.dead_letters, &id, failure) => drop(failed.unwrap()),
    }
    let calls = harness.faults.calls();
    harness.faults = Faults::none();
    let process = harness.start("c");
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    send::send_due(&process.app.notices).await.unwrap();
    (calls, process.job(&id).await.state, dead_letters.len(), harness.notifier.notices().len())
}

#[tokio::test(start_paused = true)]
async fn every_failed_job_has_a_dead_letter_and_a_notice() {
    let (calls, state, dead_letters, notices) = fail_until_killed(None).await;
    assert_eq!((state, dead_letters, notices), (State::Failed, 1, 1));
    assert!(calls >= 4, "{calls}");
    for at in 0..calls {
        let (_, state, dead_letters, notices) = fail_until_killed(Some(at)).await;
        match state {
            State::Failed => assert_eq!((dead_letters, notices), (1, 1), "killed at call {at}"),
            _ => assert_eq!(dead_letters, 0, "killed at call {at}"),
        }
    }
}

/// A job that failed after it had stored a result that it could not publish.
async fn failed_while_publishing(harness: &Harness) -> JobId {
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(10)).await.is_none());
    let job = process.job(&id).await;
    results::publish(&process.app.finisher, &job, 1, Cause::Deadline).await.unwrap();
    let failure = Failure { code: "unreachable".into(), reason: "the disk is full".into() };
    fail(&process.app.dead_letters, &id, failure).await.unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_publishes_its_own_pages_and_not_those_of_an_earlier_run() {
    let harness = Harness::new(&[]);
    let id = failed_while_publishing(&harness).await;
    let process = harness.start("b");
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    assert_eq!(job.result.as_ref().unwrap().version, 1);
    assert_eq!(sources(&process.result(&job).await), [Source::AI; 2]);
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_redriven_job_whose_document_was_read_needs_no_password() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let document = FakeDocument { password: Some("open sesame".into()), ..FakeDocument::graphics(2) };
    let id = process.submit_with(&document, |_| {}, Some("open sesame"), None).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(10)).await.is_none());
    // As when storage is unavailable for longer than the retries.
    let failure = Failure { code: "unreachable".into(), reason: "the store is unavailable".into() };
    assert_eq!(fail(&process.app.dead_letters, &id, failure).await.unwrap().state, State::Failed);

    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    let process = harness.start("b");
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap();
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 2).await;
}
