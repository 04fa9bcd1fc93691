//! Erasing a tenant: nothing of it is left but trails and amounts, under any fault, and nothing of another
//! tenant is touched.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::App,
    billing::{
        account::{AccountEvent, Cause},
        accounts,
        buy::{self, PurchaseError, PurchaseRequest},
    },
    dead_letters::{
        self,
        add::{self, NewDeadLetter},
    },
    erasures::{
        self,
        erasure::{Erasure, Step},
    },
    event::{Aggregate, verify},
    events::trail,
    finish::erase,
    ids::{ErasureId, JobId, Priority, TenantId},
    intake::{
        accept::{ArrivalError, Object, accept},
        announce::{UploadAnnouncement, announce},
        submit::{Submission, SubmitError, submit},
        uploads::Upload,
    },
    job::{JobOptions, RequestSource, jobs},
    notices::{self, NewNotice, send},
    notify::webhooks::{self, Subscription},
    ports::{
        Fault,
        blobs::Blobs,
        notifier::NoticeKind,
        queue::{Delivery, Receipt},
        records::{Item, Records},
    },
    recover::sweep::sweep,
    sagas::{
        progress::{State, StepState},
        run,
    },
    secret::Secret,
    tenants::{
        self, administration, api_keys,
        caller::{Caller, Role},
    },
    time::within,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    memory::MemoryRecords,
    pdf::FakeDocument,
};
use everypage_tests::harness::{Harness, Process, temp_file};

const SETTINGS: [(&str, &str); 4] = [
    ("CREDITS", "prepaid"),
    ("PAYMENT_URL", "http://pay.example"),
    ("CREDIT_PRICE_USD", "0.05"),
    ("RETRY_INTERVALS", "1s,4s,16s"),
];
const LONG: Duration = Duration::from_secs(7200);
/// What a user gave us: none of it may be left outside of trails.
const PRIVATE: [&str; 4] = ["confidential", "mallory", "private prompt", "hook.example"];

fn tenant() -> TenantId {
    TenantId::new("local")
}

fn other() -> TenantId {
    TenantId::new("globex")
}

fn submission(app: &App, tenant: TenantId, file: &Path, key: &str) -> Submission {
    Submission {
        tenant,
        user: Some("mallory".into()),
        source: RequestSource::Cli,
        name: "confidential.pdf".into(),
        file: file.to_owned(),
        password: None,
        options: JobOptions::from_settings(&app.settings),
        idempotency_key: Some(key.into()),
        traceparent: None,
    }
}

async fn submit_as(app: &App, tenant: TenantId, key: &str) -> Result<JobId, SubmitError> {
    let file = temp_file(FakeDocument::graphics(2).bytes());
    Ok(submit(&app.intake, submission(app, tenant, file.path(), key)).await?.job.id)
}

async fn announce_as(app: &App, tenant: TenantId) -> Result<Upload, SubmitError> {
    let announcement = UploadAnnouncement {
        tenant,
        user: Some("mallory".into()),
        name: "confidential.pdf".into(),
        options: JobOptions::from_settings(&app.settings),
        password: Some(Secret::new("confidential")),
        idempotency_key: None,
        traceparent: None,
    };
    announce(&app.intake, announcement, Duration::from_secs(3600)).await
}

fn caller(tenant: TenantId) -> Caller {
    Caller { tenant, user: "mallory".into(), role: Role::Operator }
}

fn order(tenant: TenantId) -> PurchaseRequest {
    PurchaseRequest {
        tenant,
        by: "mallory".into(),
        credits: 10,
        method: Some(Secret::new("confidential card")),
        idempotency_key: None,
    }
}

/// What a test needs of a tenant that has everything a tenant can have.
struct Furnished {
    key: Secret,
    upload: Upload,
    open: JobId,
}

async fn furnish(harness: &Harness, process: &Process, tenant: &TenantId) -> Furnished {
    let app = &process.app;
    let (_, key) = api_keys::create(&app.store, caller(tenant.clone()), "confidential", "ann").await.unwrap();
    let set = [("AI_SYSTEM_PROMPT".to_owned(), Some("a private prompt".to_owned()))];
    tenants::change(&app.tenants, tenant, &set, "ann").await.unwrap();
    webhooks::set(&app.store, app.vault.as_ref(), tenant, "https://hook.example/", "ann").await.unwrap();
    let all_of_jobs = Subscription { url: "https://hook.example/jobs".into(), events: vec!["job.*".into()] };
    webhooks::add(&app.store, app.vault.as_ref(), tenant, &all_of_jobs, "ann").await.unwrap().unwrap();
    let cause = Cause::Operator { by: "ann".into(), note: "granted".into() };
    accounts::change(&app.store, tenant, "ann", &AccountEvent::Added { credits: 100, cause }).await.unwrap();
    let (bought, _) = buy::start(&app.billing, order(tenant.clone())).await.unwrap();
    buy::drive(&app.billing, &bought.id, LONG).await.unwrap();
    // Its webhook keeps waiting.
    harness.hooks.fail_next(1);
    let done = submit_as(app, tenant.clone(), "first").await.unwrap();
    process.finish(&done).await;
    let open = submit_as(app, tenant.clone(), "second").await.unwrap();
    let upload = announce_as(app, tenant.clone()).await.unwrap();
    harness.blobs.put_new(&upload.key, b"confidential".to_vec()).await.unwrap();
    let unannounced = format!("incoming/{tenant}/folder/confidential.pdf");
    harness.blobs.put_new(&unannounced, b"confidential".to_vec()).await.unwrap();
    let notice = NewNotice {
        tenant: tenant.clone(),
        kind: NoticeKind::Budget,
        topic: "confidential".into(),
        about: None,
        subject: "confidential".into(),
        body: "confidential".into(),
    };
    app.store.write(vec![notices::change(&app.store, &notice).unwrap()]).await.unwrap();
    let message = Delivery {
        id: format!("m-{tenant}"),
        receipt: Receipt("r".into()),
        body: format!("confidential text of {tenant}"),
        receive_count: 3,
        lane: Priority::Normal,
    };
    let mut letter = NewDeadLetter::of_message(&app.settings, &message, "can't be parsed".into());
    letter.tenant = tenant.clone();
    add::add(&app.dead_letters, letter).await.unwrap();
    send::send_due(&app.notices).await.unwrap();
    Furnished { key, upload, open }
}

/// Runs an erasure for a long time, with the driver of a job that it cancels.
async fn try_to_finish(process: &Process, id: &ErasureId, open: &JobId) -> Result<Option<Erasure>, Fault> {
    let driven = async {
        let _ = process.driver.drive(open).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        erased = run::drive(&process.app.eraser, id, LONG) => erased,
        () = driven => unreachable!("it waits"),
        _ = process.driver.work() => unreachable!("it runs until it is dropped"),
    }
}

async fn finish(process: &Process, erasure: &Erasure, open: &JobId) -> Erasure {
    try_to_finish(process, &erasure.id, open).await.unwrap().unwrap()
}

/// Asserts that nothing is left of the tenant but trails, and records without what its users gave us.
fn assert_erased(harness: &Harness, tenant: &TenantId, what: &str) {
    for item in harness.records.dump() {
        let (key, body) = (&item.draft.key, &item.draft.body);
        if key.sort.starts_with("event#") {
            continue;
        }
        let is_of = key.partition.ends_with(&format!("#{tenant}"))
            || body.contains(&format!("\"tenant\":\"{tenant}\""));
        if !is_of {
            continue;
        }
        let kept = ["account#", "purchase#", "dead#", "erasure#", "apikey#", "upload#"];
        let is_kept = kept.iter().any(|kept| key.partition.starts_with(kept))
            || (key.partition == format!("tenant#{tenant}") && key.sort == "administration");
        assert!(is_kept, "{what}: {}/{} is left: {body}", key.partition, key.sort);
        // The people who bought and granted credits are part of the accounts.
        if !key.partition.starts_with("purchase#") {
            for private in PRIVATE {
                assert!(!body.contains(private), "{what}: {}/{}: {body}", key.partition, key.sort);
            }
        }
        if let Some(entry) = &item.draft.tenant_index {
            let kept = [format!("ledger#{tenant}"), format!("purchases#{tenant}")];
            assert!(kept.contains(&entry.partition), "{what}: {entry:?}");
        }
    }
    let blobs: Vec<_> =
        harness.blobs.keys().into_iter().filter(|key| key.contains(&format!("/{tenant}/"))).collect();
    assert!(blobs.is_empty(), "{what}: {blobs:?}");
}

/// The records of a tenant, and those of its jobs.
fn items_of(harness: &Harness, tenant: &TenantId) -> Vec<Item> {
    let name = tenant.to_string();
    let is_of = |item: &Item| item.draft.key.partition.contains(&name) || item.draft.body.contains(&name);
    let mut items: Vec<_> = harness.records.dump().into_iter().filter(is_of).collect();
    // Publishing an event takes it off the outbox.
    items.iter_mut().for_each(|item| {
        item.draft.state_index = None;
        (item.version, item.stamp) = (0, String::new());
    });
    items
}

async fn load(app: &App, erasure: &Erasure) -> Erasure {
    erasures::find(&app.store, &erasure.id).await.unwrap().unwrap().value
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_an_erased_tenant_and_another_is_untouched() {
    let harness = Harness::new(&SETTINGS);
    let process = harness.start("a");
    let app = &process.app;
    let of_other = furnish(&harness, &process, &other()).await;
    process.finish(&of_other.open).await;
    let furnished = furnish(&harness, &process, &tenant()).await;
    let (before, blobs) = (items_of(&harness, &other()), harness.blobs.keys());
    let (started, existed) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
    assert!(!existed);
    let erased = finish(&process, &started, &furnished.open).await;
    assert_eq!(erased.progress.state, State::Completed, "{:?}", erased.progress);
    assert_erased(&harness, &tenant(), "erased");
    assert_eq!(items_of(&harness, &other()), before);
    let job = format!("jobs/{}/", of_other.open);
    assert!(harness.blobs.keys().iter().any(|key| key.starts_with(&job)));
    let foreign = |keys: Vec<String>| keys.into_iter().filter(|key| key.contains("/globex/")).count();
    assert_eq!((foreign(harness.blobs.keys()), foreign(blobs)), (2, 2));
    assert!(api_keys::find(&app.store, of_other.key.expose()).await.unwrap().is_some());
    assert!(api_keys::find(&app.store, furnished.key.expose()).await.unwrap().is_none());
    assert!(api_keys::any_exist(&app.store).await.unwrap());

    // Its trail says who erased what, and what it was, in numbers.
    let events = trail::read(&app.store, &Aggregate::Tenant(tenant())).await.unwrap();
    verify(&events, &administration::load(&app.store, &tenant()).await.unwrap().value.head).unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds.last(), Some(&"tenant.erased"));
    for kind in ["key.revoked", "webhook.changed", "job.deleted"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let last = events.last().unwrap();
    assert_eq!(last.metadata.user_id.as_deref(), Some("eve"));
    assert_eq!(last.data["jobs"], 2, "{}", last.data);
    assert!(last.data["pages"].as_u64().unwrap() >= 2, "{}", last.data);
    assert!(last.data["cost_micro_usd"].as_u64().unwrap() > 0, "{}", last.data);
    let account = accounts::load(&app.store, &tenant()).await.unwrap().value;
    assert_eq!((account.balance, account.reserved), (0, 0));
    let trail = trail::read(&app.store, &Aggregate::Erasure(erased.id.clone())).await.unwrap();
    verify(&trail, &erased.head).unwrap();
    assert_eq!(Erasure::replay(&trail).unwrap(), Some(erased));
    assert_eq!(erasures::list_ended(&app.store, 10).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_tenant_accepts_nothing_and_opens_again_when_it_is_erased() {
    let harness = Harness::new(&SETTINGS);
    let process = harness.start("a");
    let app = &process.app;
    let furnished = furnish(&harness, &process, &tenant()).await;
    let (started, _) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
    let (again, existed) = erase::start(&app.store, &tenant(), "ann").await.unwrap();
    assert_eq!((again.id, again.by, existed), (started.id.clone(), "eve".into(), true));

    let is_closed = |error: &dyn std::error::Error| error.to_string().contains("is being erased");
    assert!(is_closed(&submit_as(app, tenant(), "third").await.unwrap_err()));
    assert!(is_closed(&announce_as(app, tenant()).await.unwrap_err()));
    let file = temp_file(FakeDocument::graphics(1).bytes());
    for key in [furnished.upload.key.as_str(), "incoming/local/new.pdf"] {
        let metadata = BTreeMap::new();
        let object = Object { key, version: "1", file: file.path(), metadata: &metadata, password: None };
        let refused = accept(&app.intake, object).await.unwrap_err();
        assert!(matches!(refused, ArrivalError::Refused(_)) && is_closed(&refused), "{refused}");
    }
    assert!(is_closed(&api_keys::create(&app.store, caller(tenant()), "k", "ann").await.unwrap_err()));
    let set = [("JOB_TIMEOUT".to_owned(), Some("1m".to_owned()))];
    assert!(is_closed(&tenants::change(&app.tenants, &tenant(), &set, "ann").await.unwrap_err()));
    let hook = webhooks::set(&app.store, app.vault.as_ref(), &tenant(), "https://b.example/", "ann").await;
    assert!(is_closed(&hook.unwrap_err()));
    let bought = buy::start(&app.billing, order(tenant())).await.unwrap_err();
    assert!(matches!(bought, PurchaseError::Closed(_)) && is_closed(&bought));
    assert!(submit_as(app, other(), "of another tenant").await.is_ok());

    finish(&process, &started, &furnished.open).await;
    assert_erased(&harness, &tenant(), "erased");
    // A link that was given out before leads nowhere.
    let metadata = BTreeMap::new();
    let key = furnished.upload.key.as_str();
    harness.blobs.put_new(key, b"confidential".to_vec()).await.unwrap();
    let object = Object { key, version: "2", file: file.path(), metadata: &metadata, password: None };
    assert!(matches!(accept(&app.intake, object).await, Err(ArrivalError::Refused(_))));
    assert!(!harness.blobs.keys().iter().any(|found| found == key), "what was uploaded with it is deleted");

    let (_, key) = api_keys::create(&app.store, caller(tenant()), "k", "ann").await.unwrap();
    assert!(api_keys::find(&app.store, key.expose()).await.unwrap().is_some());
    let cause = Cause::Operator { by: "ann".into(), note: "granted".into() };
    accounts::change(&app.store, &tenant(), "ann", &AccountEvent::Added { credits: 5, cause }).await.unwrap();
    let new = submit_as(app, tenant(), "first").await.unwrap();
    assert!(process.finish(&new).await.result.is_some());
    let (second, existed) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
    assert!(!existed && second.id != started.id);
    let done = finish(&process, &second, &new).await;
    assert_eq!(done.progress.state, State::Completed);
    let events = trail::read(&app.store, &Aggregate::Tenant(tenant())).await.unwrap();
    assert_eq!(events.last().unwrap().data["jobs"], 1, "only the jobs since the first erasure");
}

/// The write of a job that is accepted: the first gives it its place in line.
const WRITE_OF_JOB: usize = 2;

/// Closes the tenant right before the first job is written.
struct ClosedInBetween {
    other: Arc<App>,
    writes: AtomicUsize,
}

#[async_trait]
impl FaultInjector for ClosedInBetween {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.write" && self.writes.fetch_add(1, Ordering::SeqCst) + 1 == WRITE_OF_JOB {
            erase::start(&self.other.store, &tenant(), "eve").await.unwrap();
        }
        Injection::None
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_document_that_comes_in_while_the_tenant_is_closed_is_erased_too() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let injector = Arc::new(ClosedInBetween { other: process.app.clone(), writes: AtomicUsize::default() });
    let records: Arc<dyn Records> = harness.records.clone();
    let late = harness.start_on("late", Arc::new(Faulty::new(records, injector)));
    let id = submit_as(&late.app, tenant(), "late").await.unwrap();
    let active = erasures::list_active(&process.app.store, 10).await.unwrap();
    let erased = finish(&process, &active[0].value, &id).await;
    assert_eq!(erased.progress.state, State::Completed);
    assert!(jobs::find(&process.app.store, &id).await.unwrap().is_none());
    assert_erased(&harness, &tenant(), "erased");
}

#[tokio::test(start_paused = true)]
async fn an_erasure_that_cannot_go_on_waits_for_an_operator_and_is_resumed() {
    let harness = Harness::new(&SETTINGS);
    let process = harness.start("a");
    let app = &process.app;
    let stuck = submit_as(app, tenant(), "stuck").await.unwrap();
    let (started, _) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
    // No process drives the job, so that it does not end.
    let stopped = run::drive(&app.eraser, &started.id, LONG).await.unwrap().unwrap();
    assert_eq!(stopped.progress.state, State::Manual);
    assert_eq!(stopped.progress.state_of(Step::Keys), StepState::Done);
    assert_eq!(stopped.progress.reason.as_deref(), Some("jobs that have not ended: 1"));
    assert_eq!(erasures::list_manual(&app.store, 10).await.unwrap().len(), 1);
    send::send_due(&app.notices).await.unwrap();
    let notices = harness.notifier.notices();
    assert!(
        notices.iter().any(|notice| notice.body.contains("everypage tenants erase local")),
        "{notices:?}"
    );
    assert!(submit_as(app, tenant(), "still closed").await.is_err());

    let (resumed, existed) = erase::start(&app.store, &tenant(), "ann").await.unwrap();
    assert_eq!((resumed.progress.state, existed), (State::Running, true));
    let erased = finish(&process, &resumed, &stuck).await;
    assert_eq!(erased.progress.state, State::Completed);
    assert_erased(&harness, &tenant(), "erased");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_erasure_is_completed_by_the_sweep_and_by_serve() {
    for by_sweep in [true, false] {
        let harness = Harness::new(&[]);
        let app = &harness.start("a").app;
        api_keys::create(&app.store, caller(tenant()), "k", "ann").await.unwrap();
        let (started, _) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
        if by_sweep {
            let mut steps = 0;
            for _ in 0..5 {
                steps += sweep(&app.recovery).await.erasures;
                harness.advance(Duration::from_secs(60)).await;
            }
            assert!(steps > 0);
        } else {
            within(app.store.clock.as_ref(), Duration::from_secs(300), run::run(&app.eraser)).await;
        }
        assert_eq!(load(app, &started).await.progress.state, State::Completed, "{by_sweep}");
    }
}

/// The tenant is erased by a process under faults.
async fn erase_under(faults: Arc<Faults>) -> (Harness, Furnished) {
    let mut harness = Harness::new(&SETTINGS);
    let furnished = furnish(&harness, &harness.start("a"), &tenant()).await;
    harness.faults = faults;
    let process = harness.start("b");
    let whole = async {
        let pause = || process.app.store.clock.sleep(Duration::from_secs(1));
        let started = loop {
            match erase::start(&process.app.store, &tenant(), "eve").await {
                Ok((started, _)) => break started,
                Err(_) => pause().await,
            }
        };
        while try_to_finish(&process, &started.id, &furnished.open).await.is_err() {
            pause().await;
        }
    };
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        () = whole => {}
    }
    (harness, furnished)
}

async fn check(harness: &Harness, furnished: &Furnished, what: &str) {
    harness.faults.resume();
    let process = harness.start("c");
    let app = &process.app;
    // A step whose process was killed is not run again for two minutes.
    harness.advance(Duration::from_secs(121)).await;
    let ended = erasures::list_ended(&app.store, 10).await.unwrap();
    let erased = match ended.as_slice() {
        [] => {
            let (started, _) = erase::start(&app.store, &tenant(), "eve").await.unwrap();
            finish(&process, &started, &furnished.open).await
        }
        [one] => one.value.clone(),
        more => panic!("{what}: {more:?}"),
    };
    assert_eq!(erased.progress.state, State::Completed, "{what}: {:?}", erased.progress);
    assert_erased(harness, &tenant(), what);
    let trail = trail::read(&app.store, &Aggregate::Erasure(erased.id.clone())).await.unwrap();
    verify(&trail, &erased.head).unwrap();
    assert_eq!(Erasure::replay(&trail).unwrap(), Some(erased), "{what}");
    let events = trail::read(&app.store, &Aggregate::Tenant(tenant())).await.unwrap();
    verify(&events, &administration::load(&app.store, &tenant()).await.unwrap().value.head).unwrap();
    let records: Vec<_> = events.iter().filter(|event| event.kind == "tenant.erased").collect();
    assert_eq!(records.len(), 1, "{what}");
    assert_eq!(records[0].data["jobs"], 2, "{what}");
    assert_eq!(accounts::load(&app.store, &tenant()).await.unwrap().value.balance, 0, "{what}");
    assert_eq!(dead_letters::count_waiting(&app.store, 10).await.unwrap(), 0, "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_erasure_survives_any_fault_or_kill() {
    let (harness, furnished) = erase_under(Faults::none()).await;
    let calls = harness.faults.calls();
    assert!(calls > 100, "{calls}");
    check(&harness, &furnished, "no fault").await;
    for at in 0..calls {
        for (times, mode) in [(1, Mode::LoseReply), (5, Mode::Refuse)] {
            let (harness, furnished) = erase_under(Faults::at(at, times, mode)).await;
            let call = harness.faults.failed_call();
            check(&harness, &furnished, &format!("{mode:?} × {times} of call {at} ({call:?})")).await;
        }
        let (harness, furnished) = erase_under(Faults::stop_at(at)).await;
        let call = harness.faults.failed_call();
        check(&harness, &furnished, &format!("killed at call {at} ({call:?})")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_uploads_than_a_page_are_erased_despite_a_lagging_index() {
    let mut harness = Harness::new(&[]);
    let lag = Duration::from_secs(300);
    harness.records = Arc::new(MemoryRecords::lagging(harness.clock.clone(), lag));
    let process = harness.start("a");
    for _ in 0..250 {
        announce_as(&process.app, tenant()).await.unwrap();
    }
    harness.advance(lag).await;
    let (started, _) = erase::start(&process.app.store, &tenant(), "eve").await.unwrap();
    let erased = run::drive(&process.app.eraser, &started.id, LONG).await.unwrap().unwrap();
    assert_eq!(erased.progress.state, State::Completed, "{:?}", erased.progress);
    assert_erased(&harness, &tenant(), "erased");
}

/// The write of a job, by a process that found the tenant open, which succeeds at its last try only.
struct SlowWrite {
    other: Arc<App>,
    writes: AtomicUsize,
}

#[async_trait]
impl FaultInjector for SlowWrite {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.write" && self.writes.fetch_add(1, Ordering::SeqCst) + 1 == WRITE_OF_JOB {
            erase::start(&self.other.store, &tenant(), "eve").await.unwrap();
            self.other.store.clock.sleep(Duration::from_secs(45)).await;
        }
        Injection::None
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_written_long_after_the_tenant_was_closed_is_erased_too() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let app = &process.app;
    let injector = Arc::new(SlowWrite { other: app.clone(), writes: AtomicUsize::default() });
    let records: Arc<dyn Records> = harness.records.clone();
    let slow = harness.start_on("slow", Arc::new(Faulty::new(records, injector)));
    let written = async {
        let id = submit_as(&slow.app, tenant(), "late").await.unwrap();
        let _ = process.driver.drive(&id).await;
        id
    };
    let erased = async {
        app.store.clock.sleep(Duration::from_secs(1)).await;
        let active = erasures::list_active(&app.store, 10).await.unwrap();
        run::drive(&app.eraser, &active[0].value.id, LONG).await.unwrap().unwrap()
    };
    let (id, erased) = tokio::join!(written, erased);
    assert_eq!(erased.progress.state, State::Completed, "{:?}", erased.progress);
    assert!(jobs::find(&app.store, &id).await.unwrap().is_none());
    assert_erased(&harness, &tenant(), "erased");
}
