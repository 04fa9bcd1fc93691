//! The scenarios. Each has its own tenant, whose models behave by their names.

use std::time::Duration;

use everypage_core::{
    billing::{
        accounts,
        buy::{self, PurchaseRequest},
        purchases,
    },
    dead_letters,
    finish::verify::verify_account,
    ids::{DeadLetterId, TenantId},
    job::{Job, State, cancel::cancel, jobs},
    plan::decide::{Decision, decide, modify},
    recover::redrive::redrive,
    sagas::progress::State as PurchaseState,
    secret::Secret,
    time::after,
};
use everypage_testkit::{provider::Script, sample_pdf};

use crate::{
    collector::Span,
    summary::{check_snapshot, summarize},
    test_backend::{Document, TestBackend, ended, script, tenant, until},
};

/// Opens `samples/encrypted.pdf`.
pub const SAMPLE_PASSWORD: &str = "harbour";
/// Enough for a busy machine; a scenario that takes this long has failed.
const TIMEOUT: Duration = Duration::from_secs(150);
/// How long a backend may take to publish after a deadline.
const MAX_PUBLISH_DELAY: Duration = Duration::from_secs(2);

fn document<'a>(tenant: &'a str, texts: &[&str]) -> Document<'a> {
    Document {
        tenant,
        name: "report.pdf",
        bytes: sample_pdf::pages_with_text(texts),
        password: None,
        traceparent: None,
    }
}

async fn check(backend: &dyn TestBackend, scenario: &str, job: &Job) {
    check_snapshot(scenario, &summarize(&backend.app(), job).await);
}

/// The scenarios that every backend runs.
pub async fn common(backend: &dyn TestBackend) {
    futures::join!(
        every_model_answers(backend),
        a_page_fails_over(backend),
        every_provider_is_down(backend),
        a_job_is_cancelled(backend),
        an_expensive_plan_is_approved(backend),
        a_deadline_is_extended(backend),
        two_uploads_of_one_file_are_one_job(backend),
        a_page_is_followed_from_upload_to_result(backend),
        credits_are_missing_bought_and_paid(backend),
        a_wrong_password_fails_and_the_right_one_succeeds(backend),
    );
    // Alone, because they measure time and kill workers.
    a_provider_hangs_until_the_deadline(backend).await;
    a_worker_is_killed_in_the_middle_of_a_page(backend).await;
    a_provider_limits_the_rate(backend).await;
    every_provider_is_out_for_a_while(backend).await;
}

async fn every_model_answers(backend: &dyn TestBackend) {
    tenant(&backend.app(), "well", &[]).await;
    let id = backend.submit(document("well", &["one", "two", "three", "four", "five"])).await;
    let job = ended(backend, &id, TIMEOUT).await;
    check(backend, "every_model_answers", &job).await;
}

async fn a_page_fails_over(backend: &dyn TestBackend) {
    tenant(&backend.app(), "failover", &[]).await;
    let id = backend.submit(document("failover", &["hello"])).await;
    let job = ended(backend, &id, TIMEOUT).await;
    check(backend, "a_page_fails_over", &job).await;
}

/// One trace, started by the caller, across the queue and every process.
async fn a_page_is_followed_from_upload_to_result(backend: &dyn TestBackend) {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";
    tenant(&backend.app(), "trace", &[]).await;
    let traceparent = format!("00-{TRACE}-{CALLER}-01");
    let id =
        backend.submit(Document { traceparent: Some(&traceparent), ..document("trace", &["hello"]) }).await;
    let job = ended(backend, &id, TIMEOUT).await;
    let expected = ["call", "finalize", "inspect", "job", "page", "plan", "read_text", "render", "submit"];
    // Spans are sent in batches, every few seconds.
    let spans = until("all spans of a job", TIMEOUT, async || {
        let spans = backend.collector().spans();
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.trace == TRACE).collect();
        let all = expected.iter().all(|name| spans.iter().any(|span| span.name == *name));
        all.then_some(spans)
    })
    .await;
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (whole, page) = (named("job"), named("page"));
    assert_eq!((whole.id.as_str(), whole.parent.as_str()), (job.trace().span_id().as_str(), CALLER));
    for span in spans.iter().filter(|span| span.name != "job") {
        let parent = if span.name == "call" { page } else { whole };
        assert_eq!(span.parent, parent.id, "{}", span.name);
        assert!(span.name == "call" || span.attributes["everypage.job"] == id.as_str(), "{span:?}");
    }
    assert_eq!(page.attributes["everypage.page"], "1");
    let call = |model: &str| {
        let called =
            |span: &&Span| span.attributes.get("gen_ai.request.model").is_some_and(|name| name == model);
        spans.iter().find(called).unwrap().attributes.get("error.type").map(String::as_str)
    };
    assert_eq!((call("trace-one"), call("trace-two")), (Some("transient"), None));
    backend.check_services(&spans);
}

async fn every_provider_is_down(backend: &dyn TestBackend) {
    tenant(&backend.app(), "down", &[("PATIENCE", "0")]).await;
    let id = backend.submit(document("down", &["hello"])).await;
    let job = ended(backend, &id, TIMEOUT).await;
    check(backend, "every_provider_is_down", &job).await;
}

async fn a_provider_hangs_until_the_deadline(backend: &dyn TestBackend) {
    tenant(&backend.app(), "hang", &[("JOB_TIMEOUT", "10s")]).await;
    let id = backend.submit(document("hang", &["one", "two", "three"])).await;
    let job = ended(backend, &id, TIMEOUT).await;
    let late = job.finished_at.unwrap().duration_since(job.deadline);
    assert!(late.as_secs_f64() < MAX_PUBLISH_DELAY.as_secs_f64(), "published {late:#} after the deadline");
    check(backend, "a_provider_hangs_until_the_deadline", &job).await;
}

/// Each of the models takes two calls in five seconds.
async fn a_provider_limits_the_rate(backend: &dyn TestBackend) {
    tenant(&backend.app(), "limited", &[]).await;
    let limit = |number: &str| format!("model=limited-{number}=limit;requests=2/5s;retry-after=auto");
    bad_weather(backend, "limited", &["one", "two", "three", "four"].map(limit)).await;
}

async fn every_provider_is_out_for_a_while(backend: &dyn TestBackend) {
    tenant(&backend.app(), "outage", &[]).await;
    bad_weather(backend, "outage", &["to=40s=503".to_owned()]).await;
}

/// Whatever the weather, the models read all pages before the deadline, no page becomes a dead letter, and
/// waiting costs little.
async fn bad_weather(backend: &dyn TestBackend, name: &str, rules: &[String]) {
    const PAGES: u64 = 8;
    let before = backend.traffic();
    backend.provider().set_script(Script::parse(rules).unwrap());
    let texts: Vec<String> = (1..=PAGES).map(|page| format!("page {page}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let id = backend.submit(document(name, &texts)).await;
    let job = ended(backend, &id, TIMEOUT).await;
    backend.provider().set_script(script());
    let metadata = job.result.as_ref().unwrap().metadata.clone();
    assert_eq!((u64::from(metadata.final_ai_pages), metadata.timeout_occurred), (PAGES, false), "{name}");
    let waiting = dead_letters::waiting(&backend.app().store, 100).await.unwrap();
    assert!(
        !waiting.iter().any(|dead_letter| dead_letter.value.correlation_id == job.correlation_id),
        "{name}"
    );
    if let (Some(before), Some(after)) = (before, backend.traffic()) {
        let (messages, calls) = (after.messages - before.messages, after.record_calls - before.record_calls);
        println!("{name}: {messages} SQS messages and {calls} DynamoDB calls for {PAGES} pages");
        // With those of this test, which polls the job five times a second.
        assert!(messages <= PAGES * 30 && calls <= PAGES * 300, "{name}: waiting is expensive");
    }
}

async fn a_job_is_cancelled(backend: &dyn TestBackend) {
    tenant(&backend.app(), "cancel", &[]).await;
    let id = backend.submit(document("cancel", &["one"])).await;
    called(backend, "cancel-one", 1).await;
    cancel(&backend.app().store, backend.app().flow.as_ref(), &backend.app().interrupts, &id, "ann")
        .await
        .unwrap();
    let job = ended(backend, &id, Duration::from_secs(30)).await;
    check(backend, "a_job_is_cancelled", &job).await;
}

async fn an_expensive_plan_is_approved(backend: &dyn TestBackend) {
    // A model that has a price.
    tenant(
        &backend.app(),
        "expensive",
        &[("APPROVAL_THRESHOLD_USD", "0.000001"), ("OPENAI_PRIMARY_MODEL", "gpt-5.4")],
    )
    .await;
    let id = backend.submit(document("expensive", &["one", "two"])).await;
    until("a proposal", TIMEOUT, async || {
        let job = jobs::find(&backend.app().store, &id).await.ok()??.value;
        (job.state == State::Proposed).then_some(())
    })
    .await;
    decide(&backend.app().planner, &id, "ann", Decision::Approve).await.unwrap();
    let job = ended(backend, &id, TIMEOUT).await;
    check(backend, "an_expensive_plan_is_approved", &job).await;
}

/// Shortly before the deadline, which then applies as it was changed.
async fn a_deadline_is_extended(backend: &dyn TestBackend) {
    let approval = [("APPROVAL_THRESHOLD_USD", "0.000001"), ("OPENAI_PRIMARY_MODEL", "gpt-5.4")];
    tenant(&backend.app(), "moved", &[("JOB_TIMEOUT", "40s"), approval[0], approval[1]]).await;
    let id = backend.submit(document("moved", &["one", "two"])).await;
    let app = backend.app();
    let proposed = until("a proposal", TIMEOUT, async || {
        let job = jobs::find(&app.store, &id).await.ok()??.value;
        let close = job.deadline <= after(app.store.clock.now(), Duration::from_secs(3));
        (job.state == State::Proposed && close).then_some(job)
    })
    .await;
    let deadline = after(proposed.deadline, TIMEOUT);
    modify(&app.planner, &id, "ann", |job| job.deadline = deadline).await.unwrap();
    let job = ended(backend, &id, TIMEOUT).await;
    let metadata = job.result.as_ref().unwrap().metadata.clone();
    assert_eq!((metadata.final_ai_pages, metadata.timeout_occurred), (2, false));
    assert_eq!(job.deadline, deadline);
}

async fn credits_are_missing_bought_and_paid(backend: &dyn TestBackend) {
    let (app, tenant_id) = (backend.app(), TenantId::new("prepaid"));
    tenant(&app, "prepaid", &[("CREDITS", "prepaid")]).await;
    let first = Document { name: "poor.pdf", ..document("prepaid", &["one", "two"]) };
    let id = backend.submit(first).await;
    let job = ended(backend, &id, TIMEOUT).await;
    assert_eq!(job.state, State::Rejected);
    let reason = job.failure.unwrap().reason;
    assert!(reason.starts_with("not enough credits: 2 are needed and 0 are available"), "{reason}");

    let order = PurchaseRequest {
        tenant: tenant_id.clone(),
        by: "ann".into(),
        credits: 10,
        method: Some(Secret::new("card-of-ann")),
        idempotency_key: Some("first order".into()),
    };
    let (started, _) = buy::start(&app.billing, order).await.unwrap();
    // The backend's running process, or its sweep, carries out the steps.
    until("credits", TIMEOUT, async || {
        backend.sweep().await;
        let found = purchases::find(&app.store, &started.id).await.ok()??.value;
        (found.progress.state == PurchaseState::Completed).then_some(())
    })
    .await;
    let second = Document { name: "rich.pdf", ..document("prepaid", &["one", "two", "three"]) };
    let id = backend.submit(second).await;
    assert_eq!(ended(backend, &id, TIMEOUT).await.state, State::Audited);
    let account = accounts::load(&app.store, &tenant_id).await.unwrap().value;
    assert_eq!((account.balance, account.reserved, account.ordered), (7, 0, 0));
    assert_eq!(verify_account(&app.store, &tenant_id).await.unwrap(), Vec::<String>::new());
    let paid = backend.payment_server().payments.charges();
    let paid: Vec<_> = paid.iter().filter(|charge| charge.tenant == tenant_id).collect();
    assert_eq!((paid.len(), paid[0].amount.0), (1, 500_000));
}

async fn two_uploads_of_one_file_are_one_job(backend: &dyn TestBackend) {
    tenant(&backend.app(), "twin", &[]).await;
    let first = Document { name: "a.pdf", ..document("twin", &["hello"]) };
    let second = Document { name: "b.pdf", ..document("twin", &["hello"]) };
    let (first, second) = futures::join!(backend.submit(first), backend.submit(second));
    assert_eq!(first, second);
    let job = ended(backend, &first, TIMEOUT).await;
    assert_eq!(jobs::list(&backend.app().store, &TenantId::new("twin"), 10).await.unwrap().len(), 1);
    assert_eq!(backend.provider().calls_to("twin-one"), 1, "paid for once");
    // It may have either of the two names.
    assert_eq!(job.state, State::Audited);
}

async fn a_wrong_password_fails_and_the_right_one_succeeds(backend: &dyn TestBackend) {
    tenant(&backend.app(), "locked", &[]).await;
    let bytes = std::fs::read(crate::root().join("samples/encrypted.pdf")).unwrap();
    let locked =
        Document { name: "locked.pdf", bytes, password: Some("not-the-one"), ..document("locked", &[]) };
    let id = backend.submit(locked).await;
    let job = ended(backend, &id, TIMEOUT).await;
    let dead_letter = dead_letter_of(backend, &job).await;
    check(backend, "a_wrong_password_fails", &job).await;
    redrive(&backend.app().recovery, &dead_letter, "ann", Some(Secret::new(SAMPLE_PASSWORD))).await.unwrap();
    let job = ended(backend, &id, TIMEOUT).await;
    check(backend, "the_right_password_succeeds", &job).await;
}

async fn a_worker_is_killed_in_the_middle_of_a_page(backend: &dyn TestBackend) {
    tenant(&backend.app(), "crash", &[]).await;
    let id = backend.submit(document("crash", &["hello"])).await;
    called(backend, "crash-one", 1).await;
    backend.kill_workers().await;
    let job = ended(backend, &id, TIMEOUT).await;
    assert_eq!(
        backend.provider().calls_to("crash-one"),
        2,
        "once by the killed worker, once by its successor"
    );
    check(backend, "a_worker_is_killed_in_the_middle_of_a_page", &job).await;
}

/// A page that kills each of its workers becomes a dead letter, is redriven by `redriven`, and heals the
/// result.
pub async fn a_poison_page(backend: &dyn TestBackend, name: &'static str, redriven: impl AsyncFn(&Job)) {
    tenant(&backend.app(), name, &[("JOB_TIMEOUT", "4m"), ("REQUEST_TIMEOUT", "3m")]).await;
    let id = backend.submit(document(name, &["poison"])).await;
    for count in 1..=3 {
        called(backend, &format!("{name}-one"), count).await;
        backend.kill_workers().await;
    }
    let job = until("the end of the poisoned job", TIMEOUT, async || {
        backend.sweep().await;
        let job = jobs::find(&backend.app().store, &id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await;
    check(backend, "a_poison_page_becomes_a_dead_letter", &job).await;
    redriven(&job).await;
    let healed = until("version 2", TIMEOUT, async || {
        let job = jobs::find(&backend.app().store, &id).await.ok()??.value;
        job.result.as_ref().is_some_and(|result| result.version == 2).then_some(job)
    })
    .await;
    check(backend, "a_poison_page_is_healed", &healed).await;
}

/// Redrives the job's dead letter with our own redrive.
pub async fn redrive_dead_letter(backend: &dyn TestBackend, job: &Job) {
    let dead_letter = dead_letter_of(backend, job).await;
    redrive(&backend.app().recovery, &dead_letter, "ann", None).await.unwrap();
    backend.take_on(&job.id).await;
}

async fn dead_letter_of(backend: &dyn TestBackend, job: &Job) -> DeadLetterId {
    until("a dead letter", TIMEOUT, async || {
        let waiting = dead_letters::waiting(&backend.app().store, 100).await.ok()?;
        let dead_letter =
            waiting.into_iter().find(|dead_letter| dead_letter.value.correlation_id == job.correlation_id);
        dead_letter.map(|dead_letter| dead_letter.value.id)
    })
    .await
}

/// Waits until a model was called `times` times.
async fn called(backend: &dyn TestBackend, model: &str, times: u64) {
    until(&format!("call {times} of {model}"), TIMEOUT, async || {
        (backend.provider().calls_to(model) >= times).then_some(())
    })
    .await;
}
