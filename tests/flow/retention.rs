//! Retention: the content of ended jobs is removed after its time, and the trail stays.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    dead_letters::{self, fail::fail, job_dead_letter_id},
    event::Aggregate,
    events::trail,
    finish::{heal, results, retention, verify::verify_job},
    ids::{DeadLetterId, JobId, Priority, TenantId},
    job::{Failure, State, jobs},
    ports::{
        queue::{Outgoing, Queue},
        records::Records,
    },
    recover::{redrive::redrive, sweep::sweep},
    tenants::administration,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection},
    pdf::FakeDocument,
};
use everypage_tests::harness::Harness;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn document() -> FakeDocument {
    let mut document = FakeDocument::graphics(2);
    document.pages[0].text = "the words of the document".into();
    document
}

#[tokio::test(start_paused = true)]
async fn content_is_removed_after_its_time_and_the_trail_stays() {
    let harness = Harness::new(&[("DATA_RETENTION", "30d")]);
    let process = harness.start("a");
    let id = process.submit(&document()).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(29 * DAY).await;
    assert_eq!(retention::remove_expired(&process.app.finisher).await.unwrap(), 0);
    assert!(!harness.blobs.keys().is_empty());
    harness.advance(2 * DAY).await;
    assert_eq!(retention::remove_expired(&process.app.finisher).await.unwrap(), 1);
    assert_eq!(harness.blobs.keys(), Vec::<String>::new());
    for item in harness.records.dump() {
        assert!(!item.draft.body.contains("the words"), "text left in {:?}", item.draft.key);
        assert!(!item.draft.key.sort.starts_with("page#"), "{:?}", item.draft.key);
    }
    let job = process.job(&id).await;
    assert!(job.content_removed_at.is_some() && job.result.is_some(), "hashes and costs stay");
    let report = verify_job(&process.app.store, process.app.blobs.as_ref(), &id).await.unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.job_events > 5 && report.page_events == 2);
    assert_eq!(results::read_document(process.app.blobs.as_ref(), &job, None).await.unwrap(), None);
    assert_eq!(heal::send(&process.app.finisher, &id, DAY).await.unwrap_err().code(), "nothing_to_heal");
    assert_eq!(retention::remove_expired(&process.app.finisher).await.unwrap(), 0, "once");
    assert!(!process.submit(&document()).await.unwrap().existed, "the same request makes a new job");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_can_not_be_read_is_not_kept_longer_than_content() {
    let harness = Harness::new(&[("DATA_RETENTION", "30d")]);
    let process = harness.start("a");
    let message = Outgoing {
        name: "torn".into(),
        job: JobId::new("j"),
        lane: Priority::Normal,
        body: r#"{"mupdf_text": "the words of the document"#.into(),
        delay: Duration::ZERO,
    };
    harness.queue.send(&[message]).await.unwrap();
    process.work_for(Duration::from_secs(1)).await;
    let waiting = async || dead_letters::count_waiting(&process.app.store, 10).await.unwrap();
    let is_kept = || harness.records.dump().iter().any(|item| item.draft.body.contains("the words"));
    harness.advance(29 * DAY).await;
    retention::remove_expired(&process.app.finisher).await.unwrap();
    assert_eq!((waiting().await, is_kept()), (1, true));
    harness.advance(2 * DAY).await;
    retention::remove_expired(&process.app.finisher).await.unwrap();
    assert_eq!((waiting().await, is_kept()), (0, false));
}

#[tokio::test(start_paused = true)]
async fn one_sweep_removes_more_than_a_batch() {
    let harness = Harness::new(&[("DATA_RETENTION", "30d")]);
    let process = harness.start("a");
    for _ in 0..101 {
        let mut document = document();
        document.pages.truncate(1);
        document.pages[0].text = format!("the words of {}", harness.records.dump().len());
        let id = process.submit(&document).await.unwrap().job.id;
        process.finish(&id).await;
    }
    assert_eq!(sweep(&process.app.recovery).await.expired, 0);
    harness.advance(31 * DAY).await;
    assert_eq!(sweep(&process.app.recovery).await.expired, 101);
    assert_eq!(harness.blobs.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_without_a_retention() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&document()).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(4000 * DAY).await;
    assert_eq!(retention::remove_expired(&process.app.finisher).await.unwrap(), 0);
    assert!(process.job(&id).await.content_removed_at.is_none());
}

/// Removes content in a process that is killed at call `at`, then in another one; returns the calls.
async fn killed_at(at: Option<usize>) -> usize {
    let mut harness = Harness::new(&[("DATA_RETENTION", "1d")]);
    let process = harness.start("a");
    let id = process.submit(&document()).await.unwrap().job.id;
    process.finish(&id).await;
    harness.advance(2 * DAY).await;
    harness.faults = at.map_or_else(Faults::none, Faults::stop_at);
    let killed = harness.start("b");
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        removed = retention::remove_expired(&killed.app.finisher) => drop(removed.unwrap()),
    }
    let calls = harness.faults.calls();
    harness.faults = Faults::none();
    let next = harness.start("c");
    retention::remove_expired(&next.app.finisher).await.unwrap();
    assert!(next.job(&id).await.content_removed_at.is_some(), "{at:?}");
    assert_eq!(harness.blobs.keys(), Vec::<String>::new(), "{at:?}");
    assert_eq!(jobs::ended(&next.app.store, 10).await.unwrap(), vec![], "{at:?}");
    calls
}

#[tokio::test(start_paused = true)]
async fn a_removal_survives_a_crash_at_any_point() {
    let calls = killed_at(None).await;
    for at in 0..calls {
        killed_at(Some(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_a_record_of_its_deletion() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&document()).await.unwrap().job.id;
    process.finish(&id).await;
    let (store, tenant) = (&process.app.store, TenantId::new("local"));
    everypage_core::finish::delete::delete(store, process.app.blobs.as_ref(), &id, "ann").await.unwrap();
    let events = trail::read(store, &Aggregate::Tenant(tenant.clone())).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["tenant.created", "job.deleted"]);
    assert_eq!(events[1].metadata.user_id.as_deref(), Some("ann"));
    assert_eq!(events[1].data["job"], id.as_str());
    assert_eq!(events[1].data["pages"], 2);
    let head = administration::load(store, &tenant).await.unwrap().value.head;
    everypage_core::event::verify(&events, &head).unwrap();
}

/// Redrives a failed job as soon as its removal starts to list what there is.
struct RedriveDuringRemoval {
    other: Arc<App>,
    dead_letter: DeadLetterId,
    redriven: OnceLock<bool>,
}

#[async_trait]
impl FaultInjector for RedriveDuringRemoval {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.list" && self.redriven.get().is_none() {
            let redriven = redrive(&self.other.recovery, &self.dead_letter, "ben", None).await.is_ok();
            let _ = self.redriven.set(redriven);
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_content_is_being_removed_is_not_redriven() {
    let harness = Harness::new(&[("DATA_RETENTION", "1d")]);
    let process = harness.start("a");
    let id = process.submit(&document()).await.unwrap().job.id;
    let failure = Failure { code: "defect".into(), reason: "it broke".into() };
    fail(&process.app.dead_letters, &id, failure).await.unwrap();
    let injector = Arc::new(RedriveDuringRemoval {
        other: process.app.clone(),
        dead_letter: job_dead_letter_id(&id, 0),
        redriven: OnceLock::new(),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let removing = harness.start_on("b", Arc::new(Faulty::new(records, injector.clone())));
    retention::remove_content(&removing.app.store, removing.app.blobs.as_ref(), &id, "ann").await.unwrap();
    assert_eq!(injector.redriven.get(), Some(&false), "it would have lost its document");
    let job = process.job(&id).await;
    assert!(job.state == State::Failed && job.content_removed_at.is_some(), "{job:?}");
    assert_eq!(harness.blobs.keys(), Vec::<String>::new());
}
