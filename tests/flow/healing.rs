//! Pages that are read after the result was published, and the versions that include them.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    dead_letters,
    finish::{heal, healing},
    ids::JobId,
    job::{State, cancel::cancel, jobs},
    ports::{
        clock::Clock,
        records::Records,
        vision::{Finish, VisionError},
    },
    providers::target::{Provider, Target},
    read::{
        outcome::Settlement,
        pages::{self, Claim},
    },
    recover::redrive,
    source::Source,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faulty, Injection},
    pdf::{FakeDocument, FakePdf},
    vision::{Reply, read_by},
};
use everypage_tests::{
    harness::Harness,
    invariants::{self, page},
};

use crate::sources;

#[tokio::test(start_paused = true)]
async fn heal_sends_fallback_pages_again() {
    let harness = Harness::new(&[("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(5)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.clock.sleep(Duration::from_secs(700)).await;
    let sent = heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent, (1..=5).map(page).collect::<Vec<_>>());
    process.work_for(Duration::from_secs(10)).await;
    let job = heal::publish(&process.app.finisher, &id).await.unwrap();
    assert!(job.result.as_ref().unwrap().version >= 2);
    assert_eq!(sources(&process.result(&job).await), [Source::AI; 5]);
    assert_eq!(sources(&process.version(&job, 1).await), [Source::MUPDF_FALLBACK; 5]);
    invariants::trail_verifies(&process.app, &job).await;
    // Nothing is left to heal, so there is no new version.
    let before = job.result.clone();
    assert_eq!(heal::publish(&process.app.finisher, &id).await.unwrap().result, before);
}

#[tokio::test(start_paused = true)]
async fn a_process_without_a_pdf_reader_heals_with_stored_images() {
    let mut harness = Harness::new(&[("JOB_TIMEOUT", "10s"), ("RANGE_PAGES", "4")]);
    harness.pdf = Arc::new(FakePdf::slow(harness.clock.clone(), Duration::from_secs(3)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(12)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.pdf = Arc::new(FakePdf::absent());
    let sent = heal::send(&harness.start("api").app.finisher, &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(sent.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn many_healed_pages_are_published_in_few_versions() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "8"), ("MAX_INFLIGHT_PER_MODEL", "8")]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(60)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(Duration::from_secs(600)).await;
    harness.vision.set_behaviour(|target, page| {
        Reply::AnswerAfter(Duration::from_millis(200 + u64::from(page) * 20), read_by(target, page))
    });
    assert_eq!(heal::send(&process.app.finisher, &id, Duration::from_secs(300)).await.unwrap().len(), 60);
    process.work_for(Duration::from_secs(300)).await;
    assert!(harness.queue.is_empty());
    let job = process.job(&id).await;
    let document = process.result(&job).await;
    assert_eq!(document.metadata.final_ai_pages, 60);
    // At about 8 pages per second they take about 8 seconds, with a version every two seconds.
    assert!(job.result.as_ref().unwrap().version < 12, "{:?}", job.result.map(|result| result.version));
    invariants::trail_verifies(&process.app, &job).await;
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn another_process_takes_over_from_a_killed_publisher() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(Duration::from_secs(600)).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    heal::send(&process.app.finisher, &id, Duration::from_secs(300)).await.unwrap();
    // A process holds the lease for publishing, and was killed.
    assert!(
        healing::register(&process.app.store, &id, "killed", Duration::from_secs(60))
            .await
            .unwrap()
            .is_some()
    );
    process.work_for(Duration::from_secs(30)).await;
    assert!(harness.queue.is_empty());
    assert_eq!(process.job(&id).await.result.unwrap().version, 1, "the killed process holds the lease");
    assert_eq!(heal::take_over(&process.app.finisher).await.unwrap(), 0, "its lease has not expired");
    harness.advance(Duration::from_secs(31)).await;
    assert_eq!(heal::take_over(&process.app.finisher).await.unwrap(), 1);
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 3);
    assert_eq!(heal::take_over(&process.app.finisher).await.unwrap(), 0, "nothing is left to publish");
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn a_page_settled_during_publishing_is_in_the_next_version() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    let (app, time) = (&process.app, Duration::from_secs(60));
    let lease = healing::register(&app.store, &id, "first", time).await.unwrap().expect("no publisher");
    assert!(
        healing::register(&app.store, &id, "second", time).await.unwrap().is_none(),
        "the first one publishes"
    );
    let lease = healing::finish(&app.store, lease, time).await.unwrap().expect("the second one has a page");
    assert!(healing::finish(&app.store, lease, time).await.unwrap().is_none());
    // A publisher whose lease expired and was taken over does not publish.
    let slow = healing::register(&app.store, &id, "slow", time).await.unwrap().expect("no publisher");
    harness.advance(Duration::from_secs(61)).await;
    let next =
        healing::register(&app.store, &id, "next", time).await.unwrap().expect("the lease has expired");
    assert!(healing::finish(&app.store, slow, time).await.unwrap().is_none());
    assert!(
        healing::register(&app.store, &id, "third", time).await.unwrap().is_none(),
        "the next one still publishes"
    );
    assert!(healing::finish(&app.store, next, time).await.unwrap().is_some());
}

/// A worker in another process that stores its page after finalize has listed the pages, and signals the
/// flow before it stops waiting.
struct PageSettledDuringFinalize {
    worker: Arc<App>,
    driver: OnceLock<(Arc<App>, JobId)>,
    is_listing: AtomicBool,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for PageSettledDuringFinalize {
    async fn before(&self, call: &'static str) -> Injection {
        self.is_listing.store(call == "records.list", Ordering::SeqCst);
        Injection::None
    }

    async fn after(&self) {
        let (Some((driver, id)), true) = (self.driver.get(), self.is_listing.load(Ordering::SeqCst)) else {
            return;
        };
        let job = jobs::load(&self.worker.store, id).await.unwrap().value;
        if job.state != State::Audited || self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        let (worker, now) = (&self.worker, self.worker.store.clock.now());
        let claim = pages::claim(&worker.store, id, page(1), 0, None, "worker", Duration::from_secs(60))
            .await
            .unwrap();
        let Claim::Granted(held) = claim else { panic!("no other worker holds the page") };
        let target = Target::new(Provider::OpenAi, "gpt-5.4");
        let outcome = Settlement::read_by(target, "at last", None, vec![], now, now);
        pages::settle(&worker.store, worker.blobs.as_ref(), &job, &held, 0, outcome, Some("at last".into()))
            .await
            .unwrap()
            .unwrap();
        driver.flow.pages_settled(id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_stored_during_finalize_is_in_the_next_version() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "5s")]);
    let late = Arc::new(PageSettledDuringFinalize {
        worker: harness.start("worker").app,
        driver: OnceLock::new(),
        is_listing: AtomicBool::default(),
        done: AtomicBool::default(),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, late.clone())));
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    late.driver.set((process.app.clone(), id.clone())).ok().unwrap();
    // No other worker reads the pages.
    let job = process.driver.drive(&id).await.unwrap();
    assert!(late.done.load(Ordering::SeqCst));
    assert_eq!(job.result.as_ref().unwrap().version, 2);
    assert_eq!(process.result(&job).await.pages[0].text, "at last");
    invariants::trail_verifies(&process.app, &job).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_cancelled_job_is_not_read_again() {
    let harness = Harness::new(&[("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, page| match page {
        1 => Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }),
        _ => Reply::Hang,
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let user = async {
        process.app.store.clock.sleep(Duration::from_secs(10)).await;
        cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "ann")
            .await
            .unwrap();
        std::future::pending::<()>().await;
    };
    let job = tokio::select! { job = process.finish(&id) => job, () = user => unreachable!() };
    assert_eq!((job.state, job.result.is_some()), (State::Cancelled, true));
    let (dead_letters, calls) =
        (dead_letters::waiting(&process.app.store, 10).await.unwrap(), harness.vision.calls().len());
    let refused =
        redrive::redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", None).await.unwrap_err();
    assert_eq!(refused.code(), "nothing_to_heal", "{refused}");
    process.work_for(Duration::from_secs(60)).await;
    assert_eq!(harness.vision.calls().len(), calls);
    assert_eq!(
        dead_letters::waiting(&process.app.store, 10).await.unwrap().len(),
        1,
        "an operator may still purge it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_healed_result_is_published_by_the_sweep_and_not_by_a_worker() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "8"), ("MAX_INFLIGHT_PER_MODEL", "8")]);
    let refuses = |target: &Target, page| match page {
        1 => Reply::Finish(Finish::Refusal, String::new()),
        _ => Reply::Answer(read_by(target, page)),
    };
    harness.vision.set_behaviour(refuses);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2001)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    assert_eq!(heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap(), [page(1)]);
    process.work_for(Duration::from_secs(10)).await;
    assert_eq!(process.job(&id).await.result.unwrap().version, 1, "the worker does not publish it");
    assert_eq!(heal::take_over(&process.app.finisher).await.unwrap(), 1);
    let job = process.job(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 2001);
    assert_eq!(heal::take_over(&process.app.finisher).await.unwrap(), 0, "it is published once");
}
