//! Deleted jobs leave nothing behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    dead_letters::{
        self,
        add::{self, NewDeadLetter},
        fail::fail,
    },
    finish::delete,
    ids::{DeadLetterId, Priority, TenantId},
    job::{Failure, State},
    notices,
    notify::{
        deliver as sender,
        webhooks::{self, Subscription},
    },
    plan::propose,
    ports::{
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::Records,
        vision::VisionError,
    },
    recover::redrive,
    time::within,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faulty, Injection},
    pdf::FakeDocument,
    vision::Reply,
};
use everypage_tests::harness::Harness;

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_nothing_of_its_document() {
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "1000"), ("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    webhooks::set(
        &process.app.store,
        process.app.vault.as_ref(),
        &TenantId::new("local"),
        "https://example.com/hook",
        "test",
    )
    .await
    .unwrap();
    let every_event =
        Subscription { url: "https://example.com/events".to_owned(), events: vec!["*".to_owned()] };
    let (store, vault) = (&process.app.store, process.app.vault.as_ref());
    webhooks::add(store, vault, &TenantId::new("local"), &every_event, "test").await.unwrap();
    harness.hooks.refuse_at("https://example.com/events");
    harness.hooks.fail_next(4);
    let document = FakeDocument::graphics(150);
    let id = process.submit(&document).await.unwrap().job.id;
    assert!(
        delete::delete(&process.app.store, process.app.blobs.as_ref(), &id, "ann")
            .await
            .unwrap_err()
            .to_string()
            .contains("cancel it first")
    );
    let job = process.finish(&id).await;
    let _ =
        within(harness.clock.as_ref(), Duration::from_secs(60), sender::run(&process.app.publisher)).await;
    // A dead letter of another job stays.
    let foreign = Delivery {
        id: "m".into(),
        receipt: Receipt("r".into()),
        body: "?".into(),
        receive_count: 3,
        lane: Priority::Normal,
    };
    add::add(
        &process.app.dead_letters,
        NewDeadLetter::of_message(&process.app.settings, &foreign, "of another job".into()),
    )
    .await
    .unwrap();
    let waiting = dead_letters::waiting(&process.app.store, 2000).await.unwrap();
    let of_typed = |dead_letter: &dead_letters::DeadLetter| dead_letter.reason.contains("answered 500");
    assert_eq!(waiting.iter().filter(|dead_letter| !of_typed(&dead_letter.value)).count(), 152);
    let typed = waiting.len() - 152;
    assert!((5..15).contains(&typed), "then the webhook is paused: {typed}");
    let (of_job, _) = webhooks::of_job(store, &id, None, 2000).await.unwrap();
    assert!(of_job.len() > 300, "each page is settled and dead: {}", of_job.len());
    delete::delete(&process.app.store, process.app.blobs.as_ref(), &id, "ann").await.unwrap();
    let left = dead_letters::waiting(&process.app.store, 2000).await.unwrap();
    let about_it = |dead_letter: &dead_letters::DeadLetter| dead_letter.subject.job() == Some(&id);
    assert!(!left.iter().any(|dead_letter| about_it(&dead_letter.value)), "{left:?}");
    assert!(left.iter().any(|dead_letter| dead_letter.value.reason == "of another job"), "{left:?}");
    assert_eq!(harness.blobs.keys(), Vec::<String>::new());
    for delivery in &of_job {
        assert!(webhooks::find(store, delivery).await.unwrap().is_none(), "{delivery}");
    }
    let notices = notices::all(&process.app.store, 1000).await.unwrap();
    assert!(notices.iter().all(|notice| !notice.body.contains(id.as_str())), "{notices:?}");
    for item in harness.records.dump() {
        assert!(!item.draft.body.contains(&job.received.document.sha256), "{:?}", item.draft.key);
        assert!(!item.draft.body.contains("report.pdf"), "{:?}", item.draft.key);
        assert!(!item.draft.body.contains("layer of page"), "text left in {:?}", item.draft.key);
        assert_ne!(item.draft.key.partition, format!("job#{id}"));
    }
    assert!(!process.submit(&document).await.unwrap().existed);
}

/// Redrives a job while another process deletes it.
struct RedriveDuringDeletion {
    other: Arc<App>,
    dead_letter: DeadLetterId,
    done: AtomicBool,
}

#[async_trait]
impl FaultInjector for RedriveDuringDeletion {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.list" && !self.done.swap(true, Ordering::SeqCst) {
            redrive::redrive(&self.other.recovery, &self.dead_letter, "ben", None).await.unwrap();
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_redriven_during_its_deletion_is_not_deleted() {
    let harness = Harness::new(&[("CREDITS", "prepaid")]);
    let other = harness.start("a");
    let id = other.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let failure = Failure { code: "defect".into(), reason: "it broke".into() };
    fail(&other.app.dead_letters, &id, failure).await.unwrap();
    let dead_letter = dead_letters::job_dead_letter_id(&id, 0);
    let injector = RedriveDuringDeletion { other: other.app.clone(), dead_letter, done: Default::default() };
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("b", Arc::new(Faulty::new(records, Arc::new(injector))));
    let refused =
        delete::delete(&process.app.store, process.app.blobs.as_ref(), &id, "ann").await.unwrap_err();
    assert_eq!(refused.code(), "job_is_open");
    assert_eq!(other.job(&id).await.state, State::Acked, "the redriven job continues");
}

#[tokio::test(start_paused = true)]
async fn a_late_message_of_a_deleted_job_stores_none_of_its_text() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut document = FakeDocument::graphics(1);
    document.pages[0].text = "the words of the document".into();
    let id = process.submit(&document).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let late =
        propose::manifest(process.app.blobs.as_ref(), job.plan.as_ref().unwrap()).await.unwrap().remove(0);
    assert!(late.context_text.contains("the words of the document"));
    delete::delete(&process.app.store, process.app.blobs.as_ref(), &id, "ann").await.unwrap();
    let message = Outgoing {
        name: "late".into(),
        job: id,
        lane: Priority::Normal,
        body: late.encode().unwrap(),
        delay: Duration::ZERO,
    };
    harness.queue.send(&[message]).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    assert!(harness.queue.is_empty());
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert!(dead_letters[0].value.reason.contains("there is no job"), "{}", dead_letters[0].value.reason);
    let left = harness.records.dump().into_iter().filter(|item| item.draft.body.contains("the words"));
    assert_eq!(left.count(), 0);
}
