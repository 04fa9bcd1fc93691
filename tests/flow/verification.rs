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
    billing::buy::{self, PurchaseRequest},
    dead_letters::job_dead_letter_id,
    digest::sha256_hex,
    event::Aggregate,
    events::trail,
    finish::{
        verify::verify_job,
        verify_aggregate::{aggregates, replay, verify_aggregate},
    },
    ids::TenantId,
    job::Job,
    keys::record,
    notify::webhooks::{self, Subscription},
    ports::{
        blobs::Blobs,
        records::{Change, Key, Records},
    },
    read::{
        outcome::Settlement,
        pages::{self, Claim, Page},
    },
    records::Versioned,
    tenants::{
        api_keys,
        caller::{Caller, Role},
    },
};
use everypage_testkit::{
    faulty::{FaultInjector, Faulty, Injection},
    pdf::FakeDocument,
    vision::Reply,
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

/// What the verification of an aggregate finds.
async fn findings(app: &App, aggregate: &str) -> Vec<String> {
    let aggregate = aggregate.parse().unwrap();
    verify_aggregate(&app.store, &app.tenants, app.blobs.as_ref(), &aggregate).await.unwrap().findings
}

/// Changes something of the stored record, and then something of an event, of an aggregate that is intact.
async fn assert_tampering_is_found(
    harness: &Harness,
    app: &App,
    name: &str,
    record: &Key,
    change: (&str, &str),
) {
    assert_eq!(findings(app, name).await, Vec::<String>::new(), "{name}");
    let aggregate: Aggregate = name.parse().unwrap();
    let state = replay(&app.store, &aggregate).await.unwrap().unwrap();
    assert!(!state.is_null(), "{name}");
    let event = record::event(&aggregate, 1);
    for (key, (old, new)) in [(record, change), (&event, ("\"timestamp\":\"2", "\"timestamp\":\"3"))] {
        let before =
            harness.records.dump().into_iter().find(|item| item.draft.key == *key).unwrap().draft.body;
        assert!(before.contains(old), "{old}: {before}");
        harness.records.forge(key, before.replacen(old, new, 1));
        assert!(!findings(app, name).await.is_empty(), "{name}: {old} is {new}");
        harness.records.forge(key, before);
    }
    assert_eq!(findings(app, name).await, Vec::<String>::new(), "{name}");
}

#[tokio::test(start_paused = true)]
async fn tampering_with_any_aggregate_is_found() {
    let harness = Harness::new(&[
        ("CREDITS", "prepaid"),
        ("PAYMENT_URL", "http://pay.example"),
        ("CREDIT_PRICE_USD", "0.05"),
        ("BREAKER_FAILURE_THRESHOLD", "1"),
        ("PATIENCE", "0"),
        ("FAILOVER", "openai:gpt-5.4"),
    ]);
    let process = harness.start("a");
    let app = &process.app;
    let tenant = TenantId::new("local");
    let request = PurchaseRequest {
        tenant: tenant.clone(),
        by: "ann".into(),
        credits: 10,
        method: None,
        idempotency_key: None,
    };
    let (purchase, _) = buy::start(&app.billing, request).await.unwrap();
    buy::drive(&app.billing, &purchase.id, Duration::from_secs(60)).await.unwrap();
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|_, _| Reply::down());
    let other = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&other).await;
    let locked = FakeDocument { password: Some("x".into()), ..FakeDocument::graphics(1) };
    let locked = process.submit(&locked).await.unwrap().job.id;
    process.finish(&locked).await;
    let caller = Caller { tenant: tenant.clone(), user: "console".into(), role: Role::Operator };
    let (key, secret) = api_keys::create(&app.store, caller, "console", "ann").await.unwrap();
    api_keys::revoke(&app.store, &tenant, &key.id, "ann").await.unwrap();

    let all_of_jobs = Subscription { url: "https://hook.example/".into(), events: vec!["job.*".into()] };
    let vault = app.vault.as_ref();
    let (hook, _) = webhooks::add(&app.store, vault, &tenant, &all_of_jobs, "ann").await.unwrap().unwrap();

    let webhook = record::tenant_webhook(&tenant, &hook.id);
    let dead = job_dead_letter_id(&locked, 0);
    let api_key = record::api_key(&sha256_hex(secret.expose().as_bytes()));
    for (name, record, change) in [
        (format!("job/{id}"), record::job(&id), ("\"redrives\":0", "\"redrives\":1")),
        (format!("job/{id}/page/1"), record::page(&id, page(1)), ("\"text_len\":", "\"text_len\":9")),
        ("account/local".into(), record::account(&tenant), ("\"balance\":8", "\"balance\":9")),
        (
            format!("purchase/{}", purchase.id),
            record::purchase(&purchase.id),
            ("\"credits\":10", "\"credits\":90"),
        ),
        ("breaker/openai:gpt-5.4".into(), record::breaker("openai:gpt-5.4"), ("\"trips\":1", "\"trips\":2")),
        (
            "breaker/openai:gpt-5.4".into(),
            record::breaker("openai:gpt-5.4"),
            ("\"generation\":1", "\"generation\":2"),
        ),
        (
            "breaker/openai:gpt-5.4".into(),
            record::breaker("openai:gpt-5.4"),
            ("\"cause\":\"", "\"cause\":\"x"),
        ),
        (
            format!("dead_letter/{dead}"),
            record::dead_letter(&dead),
            ("\"receive_count\":1", "\"receive_count\":2"),
        ),
        (
            format!("dead_letter/{dead}"),
            record::dead_letter(&dead),
            ("\"redrive_count\":0", "\"redrive_count\":1"),
        ),
        (
            format!("dead_letter/{dead}"),
            record::dead_letter(&dead),
            ("\"first_at\":\"20", "\"first_at\":\"19"),
        ),
        (
            format!("dead_letter/{dead}"),
            record::dead_letter(&dead),
            ("\"tenant\":\"local\"", "\"tenant\":\"other\""),
        ),
        ("tenant/local".into(), webhook, ("\"id\":\"", "\"id\":\"x")),
        ("tenant/local".into(), api_key, ("\"revoked_at\"", "\"ignored\"")),
    ] {
        assert_tampering_is_found(&harness, app, &name, &record, change).await;
    }
    // All of them, from their events.
    let all: Vec<String> =
        aggregates(&app.store, &tenant).await.unwrap().iter().map(ToString::to_string).collect();
    for name in
        [format!("job/{id}"), format!("dead_letter/{dead}"), "account/local".into(), "tenant/local".into()]
    {
        assert!(all.contains(&name), "{name}: {all:?}");
    }
    for name in all {
        assert_eq!(findings(app, &name).await, Vec::<String>::new(), "{name}");
    }
}
