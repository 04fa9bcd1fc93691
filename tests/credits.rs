//! A tenant's credits: reserved by jobs, paid for pages that were read, released otherwise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
    billing::{
        account::{Account, AccountEvent, Cause as Why, Refused},
        accounts::{self, AccountError},
        drift,
        repair::{RepairError, repair_account},
    },
    dead_letters::{self, fail::fail},
    document::Reason,
    event::Aggregate,
    events::trail,
    finish::{finalize::finalize, heal, result::Cause, verify::verify_account},
    ids::TenantId,
    job::{Failure, Job, State, StepError, cancel::cancel, selection::PageSelection},
    keys::record,
    notices,
    plan::decide::{Decision, decide, modify},
    ports::{
        notifier::NoticeKind,
        records::{Batch, Change, Draft, Key, Records, When},
    },
    prepare,
    recover::{redrive::redrive, sweep::sweep},
    tenants,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, Process};

fn tenant() -> TenantId {
    TenantId::new("local")
}

fn grant(credits: u64) -> AccountEvent {
    AccountEvent::Added { credits, cause: Why::Operator { by: "ann".into(), note: "welcome".into() } }
}

async fn grant_credits(process: &Process, credits: u64) {
    accounts::change(&process.app.store, &tenant(), "ann", &grant(credits)).await.unwrap();
}

/// The balance and the reserved credits, of an account that verifies.
async fn balance(app: &App) -> (u64, u64) {
    assert_eq!(verify_account(&app.store, &tenant()).await.unwrap(), Vec::<String>::new());
    let account = accounts::load(&app.store, &tenant()).await.unwrap().value;
    (account.balance, account.reserved)
}

async fn amounts(app: &App) -> Vec<i64> {
    accounts::ledger(&app.store, &tenant()).await.unwrap().iter().map(|line| line.amount).collect()
}

fn prepaid() -> Harness {
    Harness::new(&[("CREDITS", "prepaid")])
}

#[tokio::test(start_paused = true)]
async fn a_job_reserves_its_estimate_and_pays_for_pages_read_by_a_model() {
    let harness = prepaid();
    harness.vision.set_behaviour(|target, page| match page {
        4 => Reply::down(),
        _ => Reply::AnswerAfter(Duration::from_secs(2), read_by(target, page)),
    });
    let process = harness.start("a");
    grant_credits(&process, 10).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
    assert_eq!(process.job(&id).await.reserved_credits, 4);
    assert_eq!(balance(&process.app).await, (10, 4));
    let process = harness.start("b");
    let job = process.finish(&id).await;
    assert_eq!((job.state, job.reserved_credits), (State::Audited, 0));
    assert_eq!(balance(&process.app).await, (7, 0));
    assert_eq!(amounts(&process.app).await, [10, -3]);
}

#[tokio::test(start_paused = true)]
async fn without_enough_credits_a_job_is_rejected_with_its_reason() {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 3).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(job.state, State::Rejected);
    let reason = job.failure.unwrap().reason;
    assert_eq!(reason, "not enough credits: 4 are needed and 3 are available (by policy)");
    assert_eq!(harness.vision.calls().len(), 0);
    assert_eq!(balance(&process.app).await, (3, 0));
    // Pages that no model reads cost nothing.
    let mut plain = FakeDocument::graphics(5);
    for page in &mut plain.pages {
        page.reason = Reason::Text;
    }
    let id = process.submit(&plain).await.unwrap().job.id;
    assert_eq!(process.finish(&id).await.state, State::Audited);
    assert_eq!(balance(&process.app).await, (3, 0));
}

#[tokio::test(start_paused = true)]
async fn unlimited_credits_make_no_account() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    assert_eq!(process.finish(&id).await.state, State::Audited);
    assert_eq!(accounts::load(&process.app.store, &tenant()).await.unwrap().version, 0);
    // Prepaid is a setting of each tenant.
    let variables = [("CREDITS".to_owned(), Some("prepaid".to_owned()))];
    tenants::change(&process.app.tenants, &tenant(), &variables, "test").await.unwrap();
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    assert_eq!(process.finish(&id).await.state, State::Rejected);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_are_cancelled_or_fail_release_all_reserved_credits() {
    let harness = prepaid();
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::AnswerAfter(Duration::from_millis(100), read_by(target, page)),
        _ => Reply::Hang,
    });
    let process = harness.start("a");
    grant_credits(&process, 10).await;
    let started = async |pages| {
        let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
        assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
        id
    };
    let (first, second) = (started(4).await, started(5).await);
    assert_eq!(balance(&process.app).await, (10, 9));
    cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &first, "ann")
        .await
        .unwrap();
    assert_eq!(
        finalize(&process.app.finisher, &first, Cause::Cancelled).await.unwrap().state,
        State::Cancelled
    );
    assert_eq!(balance(&process.app).await, (10, 5));
    let failure = Failure { code: "defect".into(), reason: "it broke".into() };
    fail(&process.app.dead_letters, &second, failure).await.unwrap();
    assert_eq!(balance(&process.app).await, (10, 0));
    assert_eq!(amounts(&process.app).await, [10]);
    // After its redrive it reserves again, and pays at its end.
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    let dead_letter = dead_letters::job_dead_letter_id(&second, 0);
    redrive(&process.app.recovery, &dead_letter, "ann", None).await.unwrap();
    assert_eq!(process.finish(&second).await.state, State::Audited);
    assert_eq!(balance(&process.app).await, (5, 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_credits_go_to_one_of_two_jobs() {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 7).await;
    let first = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    let second = process.submit(&FakeDocument::graphics(5)).await.unwrap().job.id;
    let (a, b) = tokio::join!(process.finish(&first), process.finish(&second));
    let mut states = [a.state, b.state];
    states.sort_by_key(|state| *state == State::Rejected);
    assert_eq!(states, [State::Audited, State::Rejected]);
    let paid = if a.state == State::Audited { 4 } else { 5 };
    assert_eq!(balance(&process.app).await, (7 - paid, 0));
}

fn awaiting() -> Harness {
    Harness::new(&[("CREDITS", "prepaid"), ("APPROVAL_THRESHOLD_USD", "0"), ("JOB_TIMEOUT", "60s")])
}

async fn proposed(process: &Process, pages: u32) -> Job {
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
    let job = process.job(&id).await;
    assert!(job.awaits_approval());
    job
}

#[tokio::test(start_paused = true)]
async fn an_approval_does_not_replace_credits() {
    let harness = awaiting();
    let process = harness.start("a");
    grant_credits(&process, 3).await;
    let job = proposed(&process, 4).await;
    assert_eq!(balance(&process.app).await, (3, 0), "nothing is reserved before it is approved");
    let job = decide(&process.app.planner, &job.id, "ann", Decision::Approve).await.unwrap();
    assert_eq!(job.state, State::Rejected);
    // Fewer pages need fewer credits.
    let job = proposed(&process, 5).await;
    let pages: PageSelection = "1-2".parse().unwrap();
    let modified =
        modify(&process.app.planner, &job.id, "ann", |job| job.received.options.pages = pages.clone());
    let modified = modified.await.unwrap();
    assert_eq!((modified.state, modified.reserved_credits), (State::Approved, 2));
    assert_eq!(balance(&process.app).await, (3, 2));
    assert_eq!(process.finish(&job.id).await.state, State::Audited);
    assert_eq!(balance(&process.app).await, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_was_not_approved_in_time_reserves_and_costs_nothing() {
    let harness = awaiting();
    let process = harness.start("a");
    grant_credits(&process, 9).await;
    let job = proposed(&process, 4).await;
    let job = process.finish(&job.id).await;
    assert_eq!((job.state, job.reserved_credits), (State::Audited, 0));
    assert_eq!(balance(&process.app).await, (9, 0));
}

#[tokio::test(start_paused = true)]
async fn healed_pages_are_paid_when_read_and_not_sent_without_credits() {
    let harness = prepaid();
    harness
        .vision
        .set_behaviour(|_, page| if page == 1 { Reply::Answer("one".into()) } else { Reply::down() });
    let process = harness.start("a");
    grant_credits(&process, 4).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    process.finish(&id).await;
    assert_eq!(balance(&process.app).await, (3, 0));
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    // Three pages are missing, and an operator deducted a credit.
    let taken =
        AccountEvent::Deducted { credits: 1, cause: Why::Operator { by: "ann".into(), note: "".into() } };
    accounts::change(&process.app.store, &tenant(), "ann", &taken).await.unwrap();
    let refused = heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(refused.code(), "not_enough_credits");
    assert!(matches!(refused, StepError::Broken { .. }), "{refused}");
    grant_credits(&process, 1).await;
    // The cooldown of the breakers that the first run opened is over.
    harness.advance(Duration::from_secs(600)).await;
    assert_eq!(heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap().len(), 3);
    process.work_for(Duration::from_secs(60)).await;
    let job = heal::publish(&process.app.finisher, &id).await.unwrap();
    assert_eq!(job.result.as_ref().unwrap().metadata.credits, 4);
    assert_eq!(balance(&process.app).await, (0, 0));
    assert_eq!(amounts(&process.app).await.iter().sum::<i64>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_prepaid_job_pays_even_when_a_process_with_other_settings_approves_or_heals_it() {
    let mut harness = awaiting();
    let process = harness.start("a");
    grant_credits(&process, 3).await;
    let (expensive, affordable) = (proposed(&process, 4).await.id, proposed(&process, 3).await.id);
    // A command line outside the installation has no credit settings.
    harness.settings = everypage_tests::harness::settings(&[]);
    let elsewhere = harness.start("b").app;
    let job = decide(&elsewhere.planner, &expensive, "ann", Decision::Approve).await.unwrap();
    assert_eq!(job.state, State::Rejected);
    let job = decide(&elsewhere.planner, &affordable, "ann", Decision::Approve).await.unwrap();
    assert_eq!((job.state, job.reserved_credits), (State::Approved, 3));
    harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::down(),
        _ => Reply::Answer(read_by(target, page)),
    });
    process.finish(&affordable).await;
    assert_eq!(balance(&process.app).await, (1, 0));
    let taken =
        AccountEvent::Deducted { credits: 1, cause: Why::Operator { by: "ann".into(), note: "".into() } };
    accounts::change(&process.app.store, &tenant(), "ann", &taken).await.unwrap();
    let refused = heal::send(&elsewhere.finisher, &affordable, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(refused.code(), "not_enough_credits");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_planned_without_credits_never_pays() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(5), read_by(target, page)));
    assert!(process.kill_after(&id, Duration::from_secs(1)).await.is_none());
    let variables = [("CREDITS".to_owned(), Some("prepaid".to_owned()))];
    tenants::change(&process.app.tenants, &tenant(), &variables, "test").await.unwrap();
    grant_credits(&process, 10).await;
    assert_eq!(harness.start("b").finish(&id).await.state, State::Audited);
    assert_eq!(balance(&process.app).await, (10, 0));
}

#[tokio::test(start_paused = true)]
async fn only_as_many_healed_pages_are_read_as_there_are_credits() {
    let harness = Harness::new(&[("CREDITS", "prepaid"), ("WORKER_CONCURRENCY", "1")]);
    harness.vision.set_behaviour(|_, _| Reply::down());
    let process = harness.start("a");
    grant_credits(&process, 4).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    process.finish(&id).await;
    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.advance(Duration::from_secs(600)).await;
    assert_eq!(heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap().len(), 4);
    // After they were sent, another job took the credits.
    let taken =
        AccountEvent::Deducted { credits: 3, cause: Why::Operator { by: "ann".into(), note: "".into() } };
    accounts::change(&process.app.store, &tenant(), "ann", &taken).await.unwrap();
    process.work_for(Duration::from_secs(60)).await;
    let job = process.job(&id).await;
    assert_eq!(job.result.as_ref().unwrap().metadata.credits, 1);
    assert_eq!((balance(&process.app).await, harness.queue.is_empty()), ((0, 0), true));
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 3, "an operator may redrive the others when there are credits");
    assert!(dead_letters.iter().all(|dead_letter| dead_letter.value.reason.contains("not enough credits")));
    grant_credits(&process, 3).await;
    for dead_letter in dead_letters {
        redrive(&process.app.recovery, &dead_letter.value.id, "ann", None).await.unwrap();
    }
    process.work_for(Duration::from_secs(60)).await;
    assert_eq!(process.job(&id).await.result.unwrap().metadata.credits, 4);
    assert_eq!(balance(&process.app).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_before_it_is_planned_is_not_rejected_for_missing_credits() {
    for cause in [Cause::Deadline, Cause::Cancelled] {
        let harness = prepaid();
        let process = harness.start("a");
        let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
        let job = process.job(&id).await;
        for range in prepare::inspect(&process.app.preparer, &job).await.unwrap() {
            prepare::read_range(&process.app.preparer, &job, &range).await.unwrap();
        }
        prepare::understand(&process.app.preparer, &job).await.unwrap();
        if cause == Cause::Deadline {
            harness.advance(Duration::from_secs(300)).await;
        }
        let job = finalize(&process.app.finisher, &id, cause).await.unwrap();
        let expected = if cause == Cause::Deadline { State::Audited } else { State::Cancelled };
        assert_eq!((job.state, job.result.is_some()), (expected, true));
        assert_eq!(accounts::load(&process.app.store, &tenant()).await.unwrap().version, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn verify_finds_a_changed_account() {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 5).await;
    grant_credits(&process, 2).await;
    assert_eq!(balance(&process.app).await, (7, 0));
    let tamper = async |sort: &str, from: &str, to: &str| {
        let key = Key::new(format!("account#{}", tenant()), sort);
        let item = harness.records.get(&key).await.unwrap().unwrap();
        assert!(item.draft.body.contains(from), "{}", item.draft.body);
        let draft = Draft { body: item.draft.body.replace(from, to), ..item.draft };
        let changes = vec![Change::Put { draft, when: When::Version(item.version) }];
        harness.records.write(&Batch { stamp: process.app.store.ids.fresh(), changes }).await.unwrap();
        verify_account(&process.app.store, &tenant()).await.unwrap()
    };
    let found = tamper("ledger#0000000001", "\"amount\":5", "\"amount\":9").await;
    assert!(found.iter().any(|finding| finding.contains("ledger 1")), "{found:?}");
    tamper("ledger#0000000001", "\"amount\":9", "\"amount\":5").await;
    let found = tamper("event#0000000001", "\"credits\":5", "\"credits\":6").await;
    assert!(found.iter().any(|finding| finding.starts_with("account: ")), "{found:?}");
    tamper("event#0000000001", "\"credits\":6", "\"credits\":5").await;
    let found = tamper("account", "\"balance\":7", "\"balance\":70").await;
    assert!(found.iter().any(|finding| finding.contains("the balance of 70")), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deduction_beyond_the_balance_is_refused_and_concurrent_grants_all_count() {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 5).await;
    let taken =
        AccountEvent::Deducted { credits: 6, cause: Why::Operator { by: "ann".into(), note: "".into() } };
    let refused = accounts::change(&process.app.store, &tenant(), "ann", &taken).await;
    let reason = Refused::NotEnough { needed: 6, available: 5 };
    assert_eq!(refused, Err(AccountError::Refused(reason)));
    assert_eq!(balance(&process.app).await, (5, 0));
    // Concurrent grants are all counted.
    let all = (0..20).map(|_| grant_credits(&process, 1));
    futures::future::join_all(all).await;
    assert_eq!(balance(&process.app).await, (25, 0));
}

/// Runs a small job with credits under the given faults.
async fn run(faults: std::sync::Arc<Faults>) -> (Harness, Process) {
    let mut harness = prepaid();
    let operator = harness.start("operator");
    grant_credits(&operator, 5).await;
    harness.faults = faults;
    let process = harness.start("a");
    let submitted = async {
        loop {
            match process.submit(&FakeDocument::graphics(2)).await {
                Ok(submitted) => return submitted.job.id,
                Err(_) => process.app.store.clock.sleep(Duration::from_secs(1)).await,
            }
        }
    };
    let whole = async {
        let id = submitted.await;
        process.finish(&id).await;
    };
    let stopped = harness.faults.stopped();
    tokio::select! {
        biased;
        () = stopped => {}
        () = whole => {}
    }
    (harness, process)
}

async fn check(harness: &Harness, what: &str) {
    harness.faults.resume();
    let process = harness.start("b");
    // The client submits again, whether or not it got an error.
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(job.state, State::Audited, "{what}: {:?}", job.failure);
    process.work_for(Duration::from_secs(300)).await;
    let read = process.job(&id).await.result.unwrap().metadata.credits;
    assert_eq!((read, balance(&process.app).await), (2, (3, 0)), "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_job_pays_once_and_leaves_nothing_reserved_after_any_fault_or_kill() {
    let (harness, _) = run(Faults::none()).await;
    let calls = harness.faults.calls();
    assert!(calls > 40, "{calls}");
    check(&harness, "no fault").await;
    for at in 0..calls {
        for (times, mode) in [(1, Mode::Refuse), (1, Mode::LoseReply), (3, Mode::Refuse)] {
            let (harness, _) = run(Faults::at(at, times, mode)).await;
            check(&harness, &format!("{mode:?} × {times} of call {at} ({:?})", harness.faults.failed_call()))
                .await;
        }
        let (harness, _) = run(Faults::stop_at(at)).await;
        check(&harness, &format!("killed at call {at} ({:?})", harness.faults.failed_call())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn figures_say_what_was_earned_and_spent() {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 10).await;
    let began = process.app.store.clock.now();
    harness.advance(Duration::from_secs(60)).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    process.finish(&id).await;
    let deduct =
        AccountEvent::Deducted { credits: 1, cause: Why::Operator { by: "ann".into(), note: "x".into() } };
    accounts::change(&process.app.store, &tenant(), "ann", &deduct).await.unwrap();
    let account = accounts::load(&process.app.store, &tenant()).await.unwrap().value;
    let figures = account.figures.clone().unwrap();
    assert_eq!((figures.earned, figures.spent, figures.transactions), (10, 5, 3));
    assert_eq!(account.balance, figures.earned - figures.spent);
    assert_eq!(figures.first_at, Some(began));
    assert!(figures.last_at > figures.first_at);
    // A record of version 0.1 has none: they are read from the trail, and stored with the next change.
    let key = record::account(&tenant());
    let without = serde_json::to_string(&Account { figures: None, ..account.clone() }).unwrap();
    harness.records.forge(&key, without);
    assert_eq!(accounts::load(&process.app.store, &tenant()).await.unwrap().value, account);
    assert_eq!(accounts::all(&process.app.store).await.unwrap().accounts, [account]);
    grant_credits(&process, 1).await;
    let item = process.app.store.records.get(&key).await.unwrap().unwrap();
    assert!(item.draft.body.contains(r#""earned":11"#), "{}", item.draft.body);
    assert_eq!(balance(&process.app).await, (6, 0));
}

fn welcoming() -> Harness {
    Harness::new(&[("CREDITS", "prepaid"), ("WELCOME_CREDITS", "5"), ("APPROVAL_THRESHOLD_USD", "0")])
}

#[tokio::test(start_paused = true)]
async fn a_new_tenant_is_welcomed_once_however_many_processes_see_it_first() {
    let harness = welcoming();
    let apps: Vec<_> = ["a", "b", "c"].map(|node| harness.start(node).app).into();
    let tenant = tenant();
    let first = apps.iter().map(|app| accounts::welcome(&app.store, &app.tenants, &tenant));
    futures::future::try_join_all(first).await.unwrap();
    assert_eq!(balance(&apps[0]).await, (5, 0));
    assert_eq!(amounts(&apps[0]).await, [5]);
    accounts::welcome(&apps[0].store, &apps[0].tenants, &tenant).await.unwrap();
    assert_eq!(amounts(&apps[0]).await, [5]);
}

/// Grants credits between the first read and the first write of another process.
struct GrantInBetween {
    operator: Arc<App>,
    has_granted: AtomicBool,
}

#[async_trait]
impl FaultInjector for GrantInBetween {
    async fn before(&self, call: &'static str) -> Injection {
        if call == "records.write" && !self.has_granted.swap(true, Ordering::SeqCst) {
            accounts::change(&self.operator.store, &tenant(), "ann", &grant(3)).await.unwrap();
        }
        Injection::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_at_the_same_time_does_not_replace_the_welcome() {
    let harness = welcoming();
    let operator = harness.start("a").app;
    let injector = Arc::new(GrantInBetween { operator, has_granted: AtomicBool::new(false) });
    let records: Arc<dyn Records> = harness.records.clone();
    let app = harness.start_on("b", Arc::new(Faulty::new(records, injector))).app;
    accounts::welcome(&app.store, &app.tenants, &tenant()).await.unwrap();
    assert_eq!(amounts(&app).await, [3, 5]);
    assert_eq!(balance(&app).await, (8, 0));
}

#[tokio::test(start_paused = true)]
async fn a_manual_approval_is_a_first_use_and_an_account_from_before_is_no_new_one() {
    let harness = welcoming();
    let process = harness.start("a");
    let job = proposed(&process, 4).await;
    assert_eq!(amounts(&process.app).await, Vec::<i64>::new());
    let job = decide(&process.app.planner, &job.id, "ann", Decision::Approve).await.unwrap();
    assert_eq!((job.state, job.reserved_credits), (State::Approved, 4));
    assert_eq!(balance(&process.app).await, (5, 4));

    let mut harness = prepaid();
    grant_credits(&harness.start("a"), 1).await;
    harness.settings =
        everypage_tests::harness::settings(&[("CREDITS", "prepaid"), ("WELCOME_CREDITS", "5")]);
    let app = harness.start("b").app;
    accounts::welcome(&app.store, &app.tenants, &tenant()).await.unwrap();
    assert_eq!(amounts(&app).await, [1]);
}

/// A harness with an account of 10 - 4 + 7 credits, and its ledger's keys.
async fn with_account() -> (Harness, Arc<App>, Vec<Key>) {
    let harness = prepaid();
    let process = harness.start("a");
    grant_credits(&process, 10).await;
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    process.finish(&id).await;
    grant_credits(&process, 7).await;
    let lines = accounts::ledger(&process.app.store, &tenant()).await.unwrap();
    let keys = lines.iter().map(|line| record::ledger_entry(&tenant(), line.sequence)).collect();
    (harness, process.app, keys)
}

fn body(harness: &Harness, key: &Key) -> String {
    harness.records.dump().into_iter().find(|item| item.draft.key == *key).unwrap().draft.body
}

#[tokio::test(start_paused = true)]
async fn an_account_is_rebuilt_from_its_trail() {
    let (harness, app, lines) = with_account().await;
    assert_eq!(repair_account(&app.store, &tenant(), "ann").await, Ok(vec![]), "nothing is wrong");
    let (account, right) = (body(&harness, &record::account(&tenant())), body(&harness, &lines[1]));
    // A wrong balance, a wrong line, a missing one, and one that never was.
    harness.records.forge(&record::account(&tenant()), account.replace(r#""balance":13"#, r#""balance":99"#));
    harness.records.forge(&lines[1], right.replace(r#""amount":-4"#, r#""amount":-1"#));
    let missing = app.store.records.get(&lines[2]).await.unwrap().unwrap();
    let surplus = record::ledger_entry(&tenant(), 4);
    let forged = Draft::new(surplus, right.replace(r#""sequence":3"#, r#""sequence":4"#));
    app.store
        .write(vec![
            Change::Delete { key: lines[2].clone(), version: missing.version },
            Change::Put { draft: forged, when: When::Absent },
        ])
        .await
        .unwrap();
    let findings = repair_account(&app.store, &tenant(), "ann").await.unwrap();
    for finding in ["is not what its trail says", "entry is missing", "is not the sum", "the balance of 99"] {
        assert!(findings.iter().any(|found| found.contains(finding)), "{finding}: {findings:?}");
    }
    assert_eq!(balance(&app).await, (13, 0));
    assert_eq!(amounts(&app).await, [10, -4, 7]);
    let events = trail::read(&app.store, &Aggregate::Account(tenant())).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!((last.kind.as_str(), last.metadata.user_id.as_deref()), ("account.repaired", Some("ann")));
    assert_eq!(last.data["findings"], serde_json::json!(findings));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_of_more_lines_than_a_batch_is_rebuilt() {
    let harness = prepaid();
    let process = harness.start("a");
    for _ in 0..200 {
        grant_credits(&process, 1).await;
    }
    let app = process.app;
    for line in accounts::ledger(&app.store, &tenant()).await.unwrap() {
        let key = record::ledger_entry(&tenant(), line.sequence);
        let version = app.store.records.get(&key).await.unwrap().unwrap().version;
        app.store.write(vec![Change::Delete { key, version }]).await.unwrap();
    }
    assert!(!repair_account(&app.store, &tenant(), "ann").await.unwrap().is_empty());
    assert_eq!(balance(&app).await, (200, 0));
    assert_eq!(amounts(&app).await.len(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_trail_is_no_ground_for_a_repair() {
    let (harness, app, _) = with_account().await;
    let key = record::event(&Aggregate::Account(tenant()), 1);
    let event = body(&harness, &key);
    harness.records.forge(&key, event.replace(r#""credits":10"#, r#""credits":90"#));
    let before = harness.records.dump();
    assert!(matches!(repair_account(&app.store, &tenant(), "ann").await, Err(RepairError::Damaged(_))));
    harness.records.forge(&key, event);
    // The last event is missing: what it did is not known.
    let events = trail::read(&app.store, &Aggregate::Account(tenant())).await.unwrap();
    let key = record::event(&Aggregate::Account(tenant()), events.len() as u64);
    let version = app.store.records.get(&key).await.unwrap().unwrap().version;
    app.store.write(vec![Change::Delete { key, version }]).await.unwrap();
    assert!(matches!(repair_account(&app.store, &tenant(), "ann").await, Err(RepairError::Damaged(_))));
    assert_eq!(harness.records.dump().len(), before.len() - 1, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn the_sweep_finds_accounts_that_differ_until_they_are_repaired() {
    let (harness, app, lines) = with_account().await;
    assert_eq!(drift::check(&app.store).await.unwrap(), 0);
    // The record is wrong, which is found within a minute, or an old line of the ledger, within a day.
    let account = body(&harness, &record::account(&tenant()));
    let line = body(&harness, &lines[1]);
    for (key, right, wrong) in [
        (record::account(&tenant()), account.clone(), account.replace(r#""balance":13"#, r#""balance":12"#)),
        (lines[1].clone(), line.clone(), line.replace(r#""amount":-4"#, r#""amount":-5"#)),
    ] {
        harness.records.forge(&key, wrong);
        if key == lines[1] {
            sweep(&app.recovery).await;
            assert_eq!(drift::count_drifted(&app.store).await.unwrap(), 0, "it was checked today");
            harness.advance(Duration::from_secs(24 * 3600)).await;
        }
        sweep(&app.recovery).await;
        assert_eq!(drift::count_drifted(&app.store).await.unwrap(), 1);
        sweep(&app.recovery).await;
        harness.records.forge(&key, right);
        sweep(&app.recovery).await;
        assert_eq!(drift::count_drifted(&app.store).await.unwrap(), 0);
    }
    let notices = notices::all(&app.store, 100).await.unwrap();
    let drifts: Vec<_> = notices.iter().filter(|notice| notice.kind == NoticeKind::AccountDrift).collect();
    assert_eq!(drifts.len(), 2, "one each time: {notices:?}");
    assert!(drifts[0].body.contains("--repair"), "{}", drifts[0].body);
}

/// Another process that uses the account before each read of it.
#[derive(Default)]
struct BusyWriter(std::sync::OnceLock<Arc<App>>);

#[async_trait]
impl FaultInjector for BusyWriter {
    async fn before(&self, call: &'static str) -> Injection {
        if let (Some(app), "records.list" | "records.get") = (self.0.get(), call) {
            accounts::change(&app.store, &tenant(), "ann", &grant(1)).await.unwrap();
        }
        Injection::None
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn an_account_that_is_used_meanwhile_does_not_differ() {
    let harness = prepaid();
    let writer = Arc::new(BusyWriter::default());
    let records: Arc<dyn Records> = harness.records.clone();
    let reader = harness.start_on("reader", Arc::new(Faulty::new(records, writer.clone()))).app;
    assert!(writer.0.set(harness.start("writer").app).is_ok());
    for _ in 0..3 {
        assert_eq!(verify_account(&reader.store, &tenant()).await.unwrap(), Vec::<String>::new());
        assert_eq!(drift::check(&reader.store).await.unwrap(), 0);
    }
    let other = harness.start("other").app;
    let used = accounts::load(&other.store, &tenant()).await.unwrap().value.balance;
    assert!(used >= 9, "it was used {used} times");
}

/// Deletes a record, as something else that writes to the store might.
async fn remove(app: &App, key: &Key) {
    let version = app.store.records.get(key).await.unwrap().unwrap().version;
    app.store.write(vec![Change::Delete { key: key.clone(), version }]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn records_that_cannot_be_read_are_findings_and_are_rebuilt() {
    let (harness, app, lines) = with_account().await;
    assert_eq!(drift::check(&app.store).await.unwrap(), 0);
    let account = record::account(&tenant());
    harness.records.forge(&account, "{\"tenant\":".into());
    harness.records.forge(&lines[1], "[]".into());
    let other = TenantId::new("other");
    accounts::change(&app.store, &other, "ann", &grant(1)).await.unwrap();
    assert_eq!(drift::check(&app.store).await.unwrap(), 1, "the others are checked too");
    let listed = accounts::all(&app.store).await.unwrap();
    assert_eq!((listed.accounts[0].tenant.as_str(), &listed.damaged[0].0), ("other", &tenant()));
    let findings = repair_account(&app.store, &tenant(), "ann").await.unwrap();
    assert!(findings[0].contains("account: the record can't be read"), "{findings:?}");
    assert!(findings[1].contains("ledger 3: it can't be read"), "{findings:?}");
    assert_eq!((balance(&app).await, amounts(&app).await), ((13, 0), vec![10, -4, 7]));
    assert_eq!(drift::count_drifted(&app.store).await.unwrap(), 0);

    assert_eq!(drift::check(&app.store).await.unwrap(), 0);
    remove(&app, &account).await;
    assert_eq!(drift::check(&app.store).await.unwrap(), 1);
    let findings = repair_account(&app.store, &tenant(), "ann").await.unwrap();
    assert_eq!(findings, ["account: the record is missing"]);
    assert_eq!((balance(&app).await, drift::check(&app.store).await.unwrap()), ((13, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn an_end_of_a_trail_that_a_check_has_seen_is_known_without_the_record() {
    let (harness, app, _) = with_account().await;
    assert_eq!(drift::check(&app.store).await.unwrap(), 0);
    let events = trail::read(&app.store, &Aggregate::Account(tenant())).await.unwrap();
    remove(&app, &record::event(&Aggregate::Account(tenant()), events.len() as u64)).await;
    harness.records.forge(&record::account(&tenant()), "{}".into());
    assert!(matches!(repair_account(&app.store, &tenant(), "ann").await, Err(RepairError::Damaged(_))));
}

#[tokio::test(start_paused = true)]
async fn a_check_reads_what_is_new_and_a_bounded_number_of_accounts() {
    let harness = prepaid();
    let process = harness.start("a");
    for number in 0..120 {
        let tenant = TenantId::new(format!("tenant-{number:03}"));
        accounts::change(&process.app.store, &tenant, "ann", &grant(1)).await.unwrap();
    }
    let records: Arc<dyn Records> = harness.records.clone();
    let counted: Arc<ReadCounter> = Arc::default();
    let app = harness.start_on("b", Arc::new(Faulty::new(records, counted.clone()))).app;
    for _ in 0..3 {
        drift::check(&app.store).await.unwrap();
    }
    let forged = record::account(&TenantId::new("tenant-119"));
    harness.records.forge(&forged, body(&harness, &forged).replace(r#""balance":1"#, r#""balance":2"#));
    counted.0.store(0, Ordering::Relaxed);
    let mut found = 0;
    for _ in 0..3 {
        found += drift::check(&app.store).await.unwrap();
    }
    assert_eq!(found, 1, "each account has its turn");
    let reads = counted.0.load(Ordering::Relaxed);
    assert!(reads < 40, "{reads} reads of 120 accounts, one of which has changed");
}

/// Counts reads.
#[derive(Default)]
struct ReadCounter(std::sync::atomic::AtomicUsize);

#[async_trait]
impl FaultInjector for ReadCounter {
    async fn before(&self, call: &'static str) -> Injection {
        self.0.fetch_add(usize::from(call != "records.write"), Ordering::Relaxed);
        Injection::None
    }

    async fn after(&self) {}
}
