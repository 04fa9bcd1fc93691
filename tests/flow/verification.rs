//! Verification of the stored trail and results.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    event::Aggregate,
    events::trail,
    finish::verify::verify_job,
    job::Job,
    keys::record,
    ports::{
        blobs::Blobs,
        records::{Change, Key, Records},
    },
    read::{
        outcome::Settlement,
        pages::{self, Claim, Page},
    },
    records::Versioned,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faulty, Injection},
    pdf::FakeDocument,
};
use everypage_tests::{
    harness::Harness,
    invariants::{self, page},
};

#[tokio::test(start_paused = true)]
async fn verify_finds_a_changed_event_or_result() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let trail = Aggregate::Job(id.clone());
    invariants::published_in_order(
        &harness.bus.events(),
        &trail::read(&process.app.store, &trail).await.unwrap()[..4],
    );
    for (sort, what) in [("event#0000000002", "job"), ("pagelog#0000000001#0000000001", "page 1")] {
        let key = Key::new(format!("job#{id}"), sort);
        let item = harness.records.dump().into_iter().find(|item| item.draft.key == key).unwrap();
        harness.records.forge(&key, item.draft.body.replace("local", "other"));
        let findings =
            verify_job(&process.app.store, process.app.blobs.as_ref(), &id).await.unwrap().findings;
        assert!(findings.iter().any(|finding| finding.starts_with(what)), "{findings:?}");
        harness.records.forge(&key, item.draft.body);
    }
    assert_eq!(
        verify_job(&process.app.store, process.app.blobs.as_ref(), &id).await.unwrap().findings,
        Vec::<String>::new()
    );
    for (form, what) in [("txt", "its .txt"), ("json", "missing or was changed")] {
        let key = format!("jobs/{id}/result/v1.{form}");
        let stored = harness.blobs.get(&key).await.unwrap().unwrap();
        harness.blobs.delete_all(&key).await.unwrap();
        harness.blobs.put_new(&key, b"forged".to_vec()).await.unwrap();
        let findings =
            verify_job(&process.app.store, process.app.blobs.as_ref(), &id).await.unwrap().findings;
        assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
        harness.blobs.delete_all(&key).await.unwrap();
        harness.blobs.put_new(&key, stored).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn verify_finds_a_deleted_page() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::trail_verifies(&process.app, &job).await;
    let stored = pages::find(&process.app.store, &id, page(2)).await.unwrap().unwrap();
    let gone = Change::Delete { key: record::page(&id, page(2)), version: stored.version };
    process.app.store.write(vec![gone]).await.unwrap();
    let findings = verify_job(&process.app.store, process.app.blobs.as_ref(), &id).await.unwrap().findings;
    assert_eq!(findings, ["page 2: its record is missing but its trail exists"]);
}

/// A worker that settles a page between two list calls of a verification.
struct PageSettledDuringVerification {
    worker: Arc<App>,
    job: Job,
    held: Versioned<Page>,
    lists: AtomicUsize,
}

#[async_trait]
impl FaultInjector for PageSettledDuringVerification {
    async fn before(&self, call: &'static str) -> Injection {
        // The third list call, after the job's trail and its pages: the trails of the pages.
        if call == "records.list" && self.lists.fetch_add(1, Ordering::SeqCst) == 2 {
            let (worker, now) = (&self.worker, self.worker.store.clock.now());
            let late = Settlement::timed_out(vec![], now, now);
            pages::settle(&worker.store, worker.blobs.as_ref(), &self.job, &self.held, 0, late, None)
                .await
                .unwrap()
                .unwrap();
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_settled_during_verification_is_not_reported_as_tampering() {
    let harness = Harness::new(&[("JOB_TIMEOUT", "5s")]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    // A worker holds the page, and does not settle it in time.
    let claim =
        pages::claim(&process.app.store, &id, page(1), 0, None, "w", Duration::from_secs(60)).await.unwrap();
    let Claim::Granted(held) = claim else { panic!("no other worker holds the page") };
    let job = process.driver.drive(&id).await.unwrap();
    let (worker, lists) = (process.app.clone(), AtomicUsize::default());
    let injector = Arc::new(PageSettledDuringVerification { worker, job, held: *held, lists });
    let records: Arc<dyn Records> = harness.records.clone();
    let verifier = harness.start_on("b", Arc::new(Faulty::new(records, injector.clone()))).app;
    assert_eq!(
        verify_job(&verifier.store, verifier.blobs.as_ref(), &id).await.unwrap().findings,
        Vec::<String>::new()
    );
    assert!(injector.lists.load(Ordering::SeqCst) > 3, "it was verified once more");
}
