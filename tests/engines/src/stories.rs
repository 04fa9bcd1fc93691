//! The stories. Each has a tenant of its own, named as it is, with models that behave by their names.

use std::time::Duration;

use everypage_core::{
    domain::{
        ids::{DeadLetterId, TenantId},
        job::{Job, State},
        purchase::State as PurchaseState,
        secret::Secret,
    },
    ports::clock::after,
    store::{accounts, dead, jobs, purchases},
    usecases::{
        cancel::cancel,
        decide::{Decision, decide, modify},
        purchase::{self, Wish},
        redrive::redrive,
        verify::verify_account,
    },
};
use everypage_testkit::sample_pdf;

use crate::{
    bench::{Bench, Document, ended, tenant, until},
    collector::Span,
    tale::{check, told},
};

/// Opens `samples/encrypted.pdf`.
pub const LOCKED_WITH: &str = "harbour";
/// Enough for a busy machine; a story that takes this long has failed.
const LONG: Duration = Duration::from_secs(150);
/// What an engine may take to publish after a deadline.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(2);

fn document<'a>(tenant: &'a str, words: &[&str]) -> Document<'a> {
    Document {
        tenant,
        name: "report.pdf",
        bytes: sample_pdf::pages_with_text(words),
        password: None,
        traceparent: None,
    }
}

async fn tell(bench: &dyn Bench, story: &str, job: &Job) {
    check(story, &told(&bench.app(), job).await);
}

/// Those that every engine tells in the same way.
pub async fn common(bench: &dyn Bench) {
    futures::join!(
        all_well(bench),
        a_page_fails_over(bench),
        every_provider_is_down(bench),
        a_job_is_cancelled(bench),
        a_dear_plan_is_approved(bench),
        a_plan_is_given_more_time(bench),
        two_uploads_of_one_file_are_one_job(bench),
        a_page_is_followed_from_upload_to_result(bench),
        credits_are_missing_bought_and_paid(bench),
        a_wrong_password_fails_and_the_right_one_mends_it(bench),
    );
    // Alone, because it looks at the clock, and because it kills workers.
    a_provider_hangs_until_the_deadline(bench).await;
    a_worker_is_killed_in_the_middle_of_a_page(bench).await;
}

async fn all_well(bench: &dyn Bench) {
    tenant(&bench.app(), "well", &[]).await;
    let id = bench.submit(document("well", &["one", "two", "three", "four", "five"])).await;
    let job = ended(bench, &id, LONG).await;
    tell(bench, "all_well", &job).await;
}

async fn a_page_fails_over(bench: &dyn Bench) {
    tenant(&bench.app(), "failover", &[]).await;
    let id = bench.submit(document("failover", &["hello"])).await;
    let job = ended(bench, &id, LONG).await;
    tell(bench, "a_page_fails_over", &job).await;
}

/// One trace, begun by whoever handed the document in, across the queue and whatever works on it.
async fn a_page_is_followed_from_upload_to_result(bench: &dyn Bench) {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";
    tenant(&bench.app(), "trace", &[]).await;
    let traceparent = format!("00-{TRACE}-{CALLER}-01");
    let id =
        bench.submit(Document { traceparent: Some(&traceparent), ..document("trace", &["hello"]) }).await;
    let job = ended(bench, &id, LONG).await;
    let expected = ["call", "finalize", "inspect", "job", "page", "plan", "read_text", "render", "submit"];
    // Spans are told in batches, every few seconds.
    let spans = until("all spans of a job", LONG, async || {
        let spans = bench.collector().spans();
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
        let asked =
            |span: &&Span| span.attributes.get("gen_ai.request.model").is_some_and(|name| name == model);
        spans.iter().find(asked).unwrap().attributes.get("error.type").map(String::as_str)
    };
    assert_eq!((call("trace-one"), call("trace-two")), (Some("transient"), None));
    bench.check_services(&spans);
}

async fn every_provider_is_down(bench: &dyn Bench) {
    tenant(&bench.app(), "down", &[]).await;
    let id = bench.submit(document("down", &["hello"])).await;
    let job = ended(bench, &id, LONG).await;
    tell(bench, "every_provider_is_down", &job).await;
}

async fn a_provider_hangs_until_the_deadline(bench: &dyn Bench) {
    tenant(&bench.app(), "hang", &[("JOB_TIMEOUT", "10s")]).await;
    let id = bench.submit(document("hang", &["one", "two", "three"])).await;
    let job = ended(bench, &id, LONG).await;
    let late = job.finished_at.unwrap().duration_since(job.deadline);
    assert!(late.as_secs_f64() < PUBLISHED_WITHIN.as_secs_f64(), "published {late:#} after the deadline");
    tell(bench, "a_provider_hangs_until_the_deadline", &job).await;
}

async fn a_job_is_cancelled(bench: &dyn Bench) {
    tenant(&bench.app(), "cancel", &[]).await;
    let id = bench.submit(document("cancel", &["one"])).await;
    called(bench, "cancel-one", 1).await;
    cancel(&bench.app(), &id, "ann").await.unwrap();
    let job = ended(bench, &id, Duration::from_secs(30)).await;
    tell(bench, "a_job_is_cancelled", &job).await;
}

async fn a_dear_plan_is_approved(bench: &dyn Bench) {
    // A model that has a price.
    tenant(
        &bench.app(),
        "dear",
        &[("APPROVAL_THRESHOLD_USD", "0.000001"), ("OPENAI_PRIMARY_MODEL", "gpt-5.4")],
    )
    .await;
    let id = bench.submit(document("dear", &["one", "two"])).await;
    until("a proposal", LONG, async || {
        let job = jobs::find(&bench.app(), &id).await.ok()??.value;
        (job.state == State::Proposed).then_some(())
    })
    .await;
    decide(&bench.app(), &id, "ann", Decision::Approve).await.unwrap();
    let job = ended(bench, &id, LONG).await;
    tell(bench, "a_dear_plan_is_approved", &job).await;
}

/// Just before its time is up, and then it has all of the new time.
async fn a_plan_is_given_more_time(bench: &dyn Bench) {
    let dear = [("APPROVAL_THRESHOLD_USD", "0.000001"), ("OPENAI_PRIMARY_MODEL", "gpt-5.4")];
    tenant(&bench.app(), "moved", &[("JOB_TIMEOUT", "40s"), dear[0], dear[1]]).await;
    let id = bench.submit(document("moved", &["one", "two"])).await;
    let app = bench.app();
    let proposed = until("a proposal", LONG, async || {
        let job = jobs::find(&app, &id).await.ok()??.value;
        let close = job.deadline <= after(app.clock.now(), Duration::from_secs(3));
        (job.state == State::Proposed && close).then_some(job)
    })
    .await;
    let deadline = after(proposed.deadline, LONG);
    modify(&app, &id, "ann", |job| job.deadline = deadline).await.unwrap();
    let job = ended(bench, &id, LONG).await;
    let metadata = job.result.as_ref().unwrap().metadata.clone();
    assert_eq!((metadata.final_ai_pages, metadata.timeout_occurred), (2, false));
    assert_eq!(job.deadline, deadline);
}

async fn credits_are_missing_bought_and_paid(bench: &dyn Bench) {
    let (app, tenant_id) = (bench.app(), TenantId::new("prepaid"));
    tenant(&app, "prepaid", &[("CREDITS", "prepaid")]).await;
    let first = Document { name: "poor.pdf", ..document("prepaid", &["one", "two"]) };
    let id = bench.submit(first).await;
    let job = ended(bench, &id, LONG).await;
    assert_eq!(job.state, State::Rejected);
    let reason = job.failure.unwrap().reason;
    assert!(reason.starts_with("not enough credits: 2 are needed and 0 are available"), "{reason}");

    let wish = Wish {
        tenant: tenant_id.clone(),
        by: "ann".into(),
        credits: 10,
        method: Some(Secret::new("card-of-ann")),
        idempotency_key: Some("first order".into()),
    };
    let (begun, _) = purchase::begin(&app, wish).await.unwrap();
    // Whoever lives on in the engine takes the steps.
    until("credits", LONG, async || {
        bench.sweep().await;
        let found = purchases::find(&app, &begun.id).await.ok()??.value;
        (found.state == PurchaseState::Completed).then_some(())
    })
    .await;
    let second = Document { name: "rich.pdf", ..document("prepaid", &["one", "two", "three"]) };
    let id = bench.submit(second).await;
    assert_eq!(ended(bench, &id, LONG).await.state, State::Audited);
    let account = accounts::load(&app, &tenant_id).await.unwrap().value;
    assert_eq!((account.balance, account.reserved, account.ordered), (7, 0, 0));
    assert_eq!(verify_account(&app, &tenant_id).await.unwrap(), Vec::<String>::new());
    let paid = bench.payment_server().payments.charges();
    let paid: Vec<_> = paid.iter().filter(|charge| charge.tenant == tenant_id).collect();
    assert_eq!((paid.len(), paid[0].amount.0), (1, 500_000));
}

async fn two_uploads_of_one_file_are_one_job(bench: &dyn Bench) {
    tenant(&bench.app(), "twin", &[]).await;
    let first = Document { name: "a.pdf", ..document("twin", &["hello"]) };
    let second = Document { name: "b.pdf", ..document("twin", &["hello"]) };
    let (first, second) = futures::join!(bench.submit(first), bench.submit(second));
    assert_eq!(first, second);
    let job = ended(bench, &first, LONG).await;
    assert_eq!(jobs::list(&bench.app(), &TenantId::new("twin"), 10).await.unwrap().len(), 1);
    assert_eq!(bench.provider().calls_to("twin-one"), 1, "paid for once");
    // Which of the two names it has is chance.
    assert_eq!(job.state, State::Audited);
}

async fn a_wrong_password_fails_and_the_right_one_mends_it(bench: &dyn Bench) {
    tenant(&bench.app(), "locked", &[]).await;
    let bytes = std::fs::read(crate::root().join("samples/encrypted.pdf")).unwrap();
    let locked =
        Document { name: "locked.pdf", bytes, password: Some("not-the-one"), ..document("locked", &[]) };
    let id = bench.submit(locked).await;
    let job = ended(bench, &id, LONG).await;
    // The letter follows the failure.
    let letter = letter_of(bench, &job).await;
    tell(bench, "a_wrong_password_fails", &job).await;
    redrive(&bench.app(), &letter, "ann", Some(Secret::new(LOCKED_WITH))).await.unwrap();
    let job = ended(bench, &id, LONG).await;
    tell(bench, "the_right_password_mends_it", &job).await;
}

async fn a_worker_is_killed_in_the_middle_of_a_page(bench: &dyn Bench) {
    tenant(&bench.app(), "crash", &[]).await;
    let id = bench.submit(document("crash", &["hello"])).await;
    called(bench, "crash-one", 1).await;
    bench.kill_workers().await;
    let job = ended(bench, &id, LONG).await;
    assert_eq!(bench.provider().calls_to("crash-one"), 2, "once by the killed, once by its successor");
    tell(bench, "a_worker_is_killed_in_the_middle_of_a_page", &job).await;
}

/// A page that kills each of its workers is given up, redriven by `redriven`, and heals the result.
pub async fn a_poisonous_page(bench: &dyn Bench, name: &'static str, redriven: impl AsyncFn(&Job)) {
    tenant(&bench.app(), name, &[("JOB_TIMEOUT", "4m"), ("REQUEST_TIMEOUT", "3m")]).await;
    let id = bench.submit(document(name, &["poison"])).await;
    for count in 1..=3 {
        called(bench, &format!("{name}-one"), count).await;
        bench.kill_workers().await;
    }
    let job = until("the end of the poisoned job", LONG, async || {
        bench.sweep().await;
        let job = jobs::find(&bench.app(), &id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await;
    tell(bench, "a_poisonous_page_is_given_up", &job).await;
    redriven(&job).await;
    let healed = until("version 2", LONG, async || {
        let job = jobs::find(&bench.app(), &id).await.ok()??.value;
        job.result.as_ref().is_some_and(|result| result.version == 2).then_some(job)
    })
    .await;
    tell(bench, "a_poisonous_page_heals", &healed).await;
}

/// Our own way of bringing a dead letter back.
pub async fn redrive_letter(bench: &dyn Bench, job: &Job) {
    let letter = letter_of(bench, job).await;
    redrive(&bench.app(), &letter, "ann", None).await.unwrap();
    bench.take_on(&job.id).await;
}

async fn letter_of(bench: &dyn Bench, job: &Job) -> DeadLetterId {
    until("a dead letter", LONG, async || {
        let letters = dead::waiting(&bench.app(), 100).await.ok()?;
        let letter = letters.into_iter().find(|kept| kept.value.correlation_id == job.correlation_id);
        letter.map(|kept| kept.value.id)
    })
    .await
}

/// Waits until a model was called so often.
async fn called(bench: &dyn Bench, model: &str, times: u64) {
    until(&format!("call {times} of {model}"), LONG, async || {
        (bench.provider().calls_to(model) >= times).then_some(())
    })
    .await;
}
