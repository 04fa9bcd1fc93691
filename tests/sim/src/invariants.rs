//! Invariants of a run that is idle.

use std::time::Duration;

use everypage_core::{
    app::App,
    billing::{account::Cause, accounts, purchase::Purchase, purchases},
    dead_letters,
    event::Aggregate,
    events::{invariants as event_invariants, trail},
    finish::{
        invariants as result_invariants, results,
        verify::{verify_account, verify_job},
    },
    invariants,
    job::{Halt, Job, State},
    keys::record,
    money::MicroUsd,
    notices::{self, Progress, send},
    notify::{deliver, relay},
    ports::{clock::Clock, records::Key},
    providers::target::Target,
    read::expense::Expenses,
    recover::sweep::{NODE_TIMEOUT, collect_dead_messages},
    sagas::progress::State::{Compensated, Completed, Manual},
    source::Source,
    time::within,
};

use crate::{
    delays,
    faults::{MessageFault, PlannedFault, UserAction, Window, time},
    installation::Installation,
    models::page_text,
    observer::JobRun,
    reading,
    run::{all_jobs, has_result, tenant},
    run_plan::{BOUGHT, PLENTY, PRICE, Password},
};

/// A process may end a job this much before its deadline, because clocks differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);
/// Longer than all retries of a webhook.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than the time between two messages about dead letters, and than a lease of a killed sender.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(300);
/// The driver of a job polls every second for its cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What was spent is no more than the budget, and no less than what the result says that it cost.
fn budget_holds(installation: &Installation, job: &Job) -> Result<(), String> {
    let Some(limit) = installation.settings.budget_usd.map(MicroUsd::from_usd) else { return Ok(()) };
    let mut expenses = stored_expenses(installation, &record::job_expenses(&job.id));
    expenses.expire(jiff::Timestamp::MAX);
    let (spent, cost) = (expenses.spent, cost_of(job));
    if spent > limit {
        return Err(format!("{spent} USD are spent of a budget of {limit}"));
    }
    if cost > spent {
        return Err(format!("it cost {cost} USD, and {spent} are settled in its budget"));
    }
    Ok(())
}

/// Where every call could store what it cost, nothing stays reserved, and what is spent is what the result says that
/// the job cost.
fn budget_is_settled(installation: &Installation, job: &Job) -> Result<(), String> {
    if installation.settings.budget_usd.is_none() || !installation.plan.writes_succeed() {
        return Ok(());
    }
    let Expenses { spent, reservations, .. } = stored_expenses(installation, &record::job_expenses(&job.id));
    if !reservations.is_empty() {
        return Err(format!("money of its budget is still reserved: {reservations:?}"));
    }
    // A call that ended after the result was made is not in it.
    let in_time = job.result.as_ref().is_some_and(|result| !result.metadata.timeout_occurred);
    let is_recorded = job.state == State::Audited && in_time && installation.plan.delivers_once();
    match (spent, cost_of(job)) {
        (spent, cost) if is_recorded && spent != cost => {
            Err(format!("{spent} USD are settled in its budget, and it cost {cost}"))
        }
        _ => Ok(()),
    }
}

/// The tenant's budget, which all jobs share, holds what they cost and nothing else.
fn tenants_budget_holds(installation: &Installation, jobs: &[Job]) -> Result<(), String> {
    let Some(limit) = installation.settings.tenant_budget_usd.map(MicroUsd::from_usd) else { return Ok(()) };
    let items = installation.records.dump();
    let of_any_month = record::tenant_expenses(&tenant(), "");
    let is_budget =
        |key: &Key| key.partition == of_any_month.partition && key.sort.starts_with(&of_any_month.sort);
    let (mut total, mut cost) = (MicroUsd::default(), MicroUsd::default());
    for item in items.iter().filter(|item| is_budget(&item.draft.key)) {
        let mut expenses = stored_expenses(installation, &item.draft.key);
        if installation.plan.writes_succeed() && !expenses.reservations.is_empty() {
            return Err(format!("money of its budget is still reserved: {:?}", expenses.reservations));
        }
        expenses.expire(jiff::Timestamp::MAX);
        if expenses.spent > limit {
            return Err(format!("{} USD are spent of its budget of {limit}", expenses.spent));
        }
        total += expenses.spent;
    }
    for job in jobs {
        cost += cost_of(job);
    }
    if cost > total {
        return Err(format!("its jobs cost {cost} USD, and {total} are settled in its budget"));
    }
    Ok(())
}

fn stored_expenses(installation: &Installation, key: &Key) -> Expenses {
    let items = installation.records.dump();
    let record = items.iter().find(|item| item.draft.key == *key);
    record.and_then(|item| serde_json::from_str(&item.draft.body).ok()).unwrap_or_default()
}

/// What the job's result says that it cost.
fn cost_of(job: &Job) -> MicroUsd {
    job.result.as_ref().map(|result| result.metadata.cost_micro_usd).unwrap_or_default()
}

pub async fn check_every_job(installation: &Installation, inspector: &App) {
    let jobs = all_jobs(inspector).await;
    let tenants = tenants_budget_holds(installation, &jobs);
    installation.observer.check(&format!("tenant {}", tenant()), tenants);
    for job in jobs {
        let what = format!("job {}", job.id);
        installation.observer.check(&what, end_is_explained(installation, &job));
        installation.observer.check(&what, budget_holds(installation, &job));
        installation.observer.check(&what, budget_is_settled(installation, &job));
        for result in ended_in_time(installation, &job) {
            installation.observer.check(&what, result);
        }
        for result in results_are_complete_and_correct(installation, inspector, &job).await {
            installation.observer.check(&what, result);
        }
        if only_killed_early(installation) && may_be_read(installation, &job) {
            installation.observer.check(&what, all_read(inspector, &job).await);
        }
        let unread = reading::falls_back_only_for_a_reason(installation, inspector, &job).await;
        installation.observer.check(&what, unread);
        installation.observer.check(&what, reading::late_pages_are_published(inspector, &job).await);
    }
    let recorded = reading::answered_calls_are_recorded(installation, inspector).await;
    installation.observer.check("calls", recorded);
}

pub async fn check_repaired_jobs(installation: &Installation, inspector: &App) {
    for job in all_jobs(inspector).await {
        let what = format!("repaired job {}", job.id);
        for result in ended_in_time(installation, &job) {
            installation.observer.check(&what, result);
        }
        for result in results_are_complete_and_correct(installation, inspector, &job).await {
            installation.observer.check(&what, result);
        }
        if job.state == State::Failed && !locked(installation, &job) {
            let failure = Err(format!("it failed again: {:?}", job.failure));
            installation.observer.check(&what, failure);
        }
        if may_be_read(installation, &job) {
            installation.observer.check(&what, all_read(inspector, &job).await);
        }
    }
    let recorded = reading::answered_calls_are_recorded(installation, inspector).await;
    installation.observer.check("calls after the repair", recorded);
}

/// Nothing is left behind once every process is stopped and every lease has expired.
pub async fn check_store(installation: &Installation, inspector: &App) {
    installation.observer.clock.sleep(NODE_TIMEOUT).await;
    let relayed = relay::relay_silent(&inspector.publisher, NODE_TIMEOUT).await;
    installation.observer.check("outbox", relayed.map(drop).map_err(|fault| fault.to_string()));
    let sent = deliver::run_for(&inspector.publisher, WEBHOOK_TIMEOUT).await;
    installation.observer.check("webhooks", sent.map(drop).map_err(|fault| fault.to_string()));
    for result in people_are_notified(inspector).await {
        installation.observer.check("notices", result);
    }
    let items = installation.records.dump();
    installation.observer.check("store", invariants::nothing_is_held(&items, inspector.store.clock.now()));
    let collected = collect_dead_messages(&inspector.recovery).await;
    installation.observer.check("dead-letter queue", collected.map(drop).map_err(|error| error.to_string()));
    for dead_letter in dead_letters::waiting(&inspector.store, 1000).await.unwrap_or_default() {
        let dead_letter = dead_letter.value;
        let reason =
            if dead_letter.reason.trim().is_empty() { Err("it has no reason".into()) } else { Ok(()) };
        installation.observer.check(&format!("dead letter {}", dead_letter.id), reason);
    }
    let webhooks = installation.hooks.calls();
    let dead_letters = dead_letters::waiting(&inspector.store, 1000).await.unwrap_or_default();
    let mut stored = Vec::new();
    for job in all_jobs(inspector).await {
        let id = format!("\"id\":\"{}\"", job.id);
        let given_up =
            dead_letters.iter().any(|dead_letter| dead_letter.value.correlation_id == job.correlation_id);
        let notified = given_up || webhooks.iter().any(|call| call.body.contains(&id));
        let missing = || Err("its end was neither sent to the webhook nor dead-lettered".to_owned());
        installation.observer.check(&format!("job {}", job.id), if notified { Ok(()) } else { missing() });
        let aggregate = Aggregate::Job(job.id.clone());
        stored.extend(trail::read(&inspector.store, &aggregate).await.unwrap_or_default());
        stored.extend(trail::read_pages(&inspector.store, &job.id).await.unwrap_or_default());
    }
    for aggregate in billing_aggregates(inspector).await {
        stored.extend(trail::read(&inspector.store, &aggregate).await.unwrap_or_default());
    }
    for result in account_is_correct(installation, inspector).await {
        installation.observer.check("account", result);
    }
    let published = installation.observer.seen().events.clone();
    installation.observer.check("events", event_invariants::published_in_order(&published, &stored));
}

/// Every dead letter and every purchase that waits for a person has a notice, and all notices are sent.
async fn people_are_notified(inspector: &App) -> Vec<Result<(), String>> {
    within(inspector.store.clock.as_ref(), NOTICE_TIMEOUT, send::run(&inspector.notices)).await;
    let notices = notices::all(&inspector.store, 10_000).await.unwrap_or_default();
    let unsent = notices.iter().filter(|notice| notice.progress != Progress::Sent);
    let mut results: Vec<_> = unsent.map(|notice| Err(format!("not sent: {notice:?}"))).collect();
    let dead_letters = dead_letters::waiting(&inspector.store, 1000).await.unwrap_or_default();
    let mut waiting: Vec<String> =
        dead_letters.iter().map(|dead_letter| dead_letter.value.id.to_string()).collect();
    let manual = purchases::list_manual(&inspector.store, 100).await.unwrap_or_default();
    waiting.extend(manual.iter().map(|purchase| purchase.value.id.to_string()));
    for id in waiting {
        if !notices.iter().any(|notice| notice.body.contains(&id)) {
            results.push(Err(format!("{id} waits for a person, and no person was notified")));
        }
    }
    results
}

async fn purchases(inspector: &App) -> Vec<Purchase> {
    purchases::list_page(&inspector.store, &tenant(), None, 100)
        .await
        .map(|page| page.items)
        .unwrap_or_default()
}

async fn billing_aggregates(inspector: &App) -> Vec<Aggregate> {
    let purchases = purchases(inspector).await.into_iter().map(|purchase| Aggregate::Purchase(purchase.id));
    purchases.chain([Aggregate::Account(tenant())]).collect()
}

/// The balance is what was granted and bought less what was read, and no credits are reserved.
async fn account_is_correct(installation: &Installation, inspector: &App) -> Vec<Result<(), String>> {
    let Some(credits) = &installation.plan.credits else { return vec![] };
    let mut results = Vec::new();
    match verify_account(&inspector.store, &tenant()).await {
        Ok(findings) if findings.is_empty() => {}
        found => results.push(Err(format!("it does not verify: {found:?}"))),
    }
    let Ok(account) = accounts::load(&inspector.store, &tenant()).await else { return results };
    let account = account.value;
    if (account.reserved, account.ordered, account.allocated) != (0, 0, 0) {
        results.push(Err(format!("credits are reserved while idle: {account:?}")));
    }
    let purchases = purchases(inspector).await;
    let [purchase] = purchases.as_slice() else {
        results.push(Err(format!("one purchase was started: {purchases:?}")));
        return results;
    };
    let (paid, income) = (
        if purchase.progress.state == Completed { PRICE } else { MicroUsd(0) },
        installation.payments.income(),
    );
    match purchase.progress.state {
        Completed | Compensated if income == paid => {}
        // A payment service that can't be reached refunds nothing: a person has to.
        Manual if installation.plan.storage_fails() => {}
        state => results.push(Err(format!("a purchase is {state:?} and {income:?} was taken"))),
    }
    let lines = accounts::ledger(&inspector.store, &tenant()).await.unwrap_or_default();
    let added = lines.iter().filter(|line| !matches!(line.cause, Cause::Job { .. }));
    let added = added.map(|line| line.amount).sum::<i64>() as u64;
    if added % PLENTY
        != (credits.granted + if purchase.progress.state == Completed { BOUGHT } else { 0 }) % PLENTY
    {
        results.push(Err(format!("{added} credits were granted and bought: {lines:?}")));
    }
    let read: u64 = all_jobs(inspector)
        .await
        .iter()
        .filter(|job| job.state == State::Audited)
        .filter_map(|job| job.result.as_ref())
        .map(|result| u64::from(result.metadata.credits))
        .sum();
    // Where credits are scarce, a race may leave a healed page unpaid.
    let is_correct = match installation.plan.credits_are_scarce() {
        true => account.balance + read >= added && account.balance <= added,
        false => account.balance + read == added,
    };
    if !is_correct {
        let balance = account.balance;
        results.push(Err(format!(
            "{added} credits were added, {read} pages read, and the balance is {balance}"
        )));
    }
    if installation.records.dump().iter().any(|item| item.draft.key.sort == "method") {
        results.push(Err("a payment method is still stored".into()));
    }
    results
}

fn document(installation: &Installation, job: &Job) -> usize {
    installation.observer.seen().documents.get(&job.id).copied().unwrap_or_default()
}

fn locked(installation: &Installation, job: &Job) -> bool {
    installation.plan.arrivals[document(installation, job)].password == Password::Missing
}

/// The window of the job's last run.
fn last_run(installation: &Installation, job: &Job) -> Window {
    let seen = installation.observer.seen();
    let run = seen.job_runs.get(&(job.id.clone(), job.redrives));
    let from = run.map_or(Duration::ZERO, |run| run.from);
    let until = run.and_then(|run| run.closed).unwrap_or(Duration::MAX);
    Window { from, until }
}

/// Every job has ended, in a state that something in the run explains.
fn end_is_explained(installation: &Installation, job: &Job) -> Result<(), String> {
    let requested = |requested: UserAction| {
        installation
            .plan
            .faults
            .iter()
            .any(|fault| matches!(fault, PlannedFault::User { action, .. } if *action == requested))
    };
    match job.state {
        State::Audited if locked(installation, job) => Err("a locked document was read".into()),
        State::Audited => Ok(()),
        State::Cancelled if requested(UserAction::Cancel) => Ok(()),
        State::Rejected if requested(UserAction::Reject) || installation.plan.credits_are_scarce() => Ok(()),
        State::Failed if locked(installation, job) => Ok(()),
        State::Failed => delays::may_fail(installation, job, last_run(installation, job)),
        state => Err(format!("it ended as {state}: {:?}", job.failure)),
    }
}

/// Every run of a job ended in time.
fn ended_in_time(installation: &Installation, job: &Job) -> Vec<Result<(), String>> {
    let runs: Vec<JobRun> = {
        let seen = installation.observer.seen();
        let own = seen.job_runs.iter().filter(|((id, _), _)| *id == job.id);
        own.map(|(_, run)| run.clone()).collect()
    };
    runs.iter().map(|run| run_ended_in_time(installation, run)).collect()
}

/// The result, or the failure, is published a second after the deadline or the cancellation, or as soon
/// as the delays of faults allow.
fn run_ended_in_time(installation: &Installation, run: &JobRun) -> Result<(), String> {
    let deadline = installation.observer.since(run.deadline) + installation.plan.max_clock_difference();
    let due = run.cancelled.map_or(deadline, |cancelled| deadline.min(cancelled + CANCEL_POLL_INTERVAL));
    let latest = delays::latest_end(installation, due);
    let late = |what: &str, at: Duration| {
        Err(format!("{what} at {}, due at {}, {} at the latest", time(at), time(due), time(latest)))
    };
    match (run.ended, run.closed) {
        (Some((state, at)), _) if at > latest => late(&format!("{state}"), at),
        (_, Some(at)) if at > latest => late("closed", at),
        (Some(_), Some(_)) => Ok(()),
        _ => Err("it never ended".into()),
    }
}

/// Every version of the result is complete, has each page's own text, and its trail verifies.
async fn results_are_complete_and_correct(
    installation: &Installation,
    inspector: &App,
    job: &Job,
) -> Vec<Result<(), String>> {
    let mut results = Vec::new();
    match verify_job(&inspector.store, inspector.blobs.as_ref(), &job.id).await {
        Ok(report) if report.findings.is_empty() => {}
        Ok(report) => results.push(Err(format!("its trail does not verify: {:?}", report.findings))),
        Err(error) => results.push(Err(format!("its trail can't be read: {error}"))),
    }
    if !has_result(job) {
        return results;
    }
    let index = document(installation, job);
    let pages = installation.plan.arrivals[index].pages;
    let versions = job.result.as_ref().map_or(0, |result| result.version);
    for version in 1..=versions {
        let read = results::read_document(inspector.blobs.as_ref(), job, Some(version)).await;
        let Ok(Some(document)) = read else {
            results.push(Err(format!("version {version} can't be read: {read:?}")));
            continue;
        };
        results.push(result_invariants::whole(&document));
        if version == 1 && job.redrives == 0 && document.metadata.timeout_occurred {
            results.push(not_before_its_deadline(installation, job));
        }
        if document.metadata.total_pages != pages {
            results.push(Err(format!("it has {} pages instead of {pages}", document.metadata.total_pages)));
        }
        for page in &document.pages {
            let number = page.page.get();
            let blank = installation.plan.arrivals[index].blank && number == pages;
            let target = page.read_by.provider.zip(page.read_by.model.clone());
            let expected = match (page.source, target) {
                (Source::AI, Some((provider, model))) => {
                    page_text(&Target::new(provider, model), index, number)
                }
                (Source::AI, None) => "the model that read it".into(),
                _ if blank => String::new(),
                _ => format!("layer of page {number} of d{index}"),
            };
            // A page whose text layer was not read before the end has no text.
            let unread = !page.has_text && may_be_unread(installation, job);
            if !unread && page.text.trim() != expected {
                results.push(Err(format!("page {number} of version {version} has the text {:?}", page.text)));
            }
        }
    }
    results
}

/// A result that reports a timeout was not published before the deadline, as far as clocks agree.
fn not_before_its_deadline(installation: &Installation, job: &Job) -> Result<(), String> {
    let seen = installation.observer.seen();
    let published = seen.published.get(&job.id).and_then(|versions| versions.first().copied());
    let due = installation
        .observer
        .since(job.deadline)
        .saturating_sub(installation.plan.max_clock_difference() + CLOCK_TOLERANCE);
    match published {
        Some(at) if at < due => Err(format!("it timed out at {}, which is before {}", time(at), time(due))),
        _ => Ok(()),
    }
}

/// Whether a fault or a cancellation ended the job before the text layer of every page was read. Without
/// one, reading takes no time.
fn may_be_unread(installation: &Installation, job: &Job) -> bool {
    let incomplete = job.survey.as_ref().is_some_and(|survey| !survey.complete);
    let interrupted = installation.was_any_process_killed()
        || installation.plan.storage_fails()
        || job.halt == Some(Halt::Cancelled)
        || installation.plan.faults.iter().any(|fault| matches!(fault, PlannedFault::Reader { .. }));
    incomplete && interrupted
}

/// No lease is held while the installation is idle. A killed process, and one that could not release its
/// lease, holds it until it expires; and where clocks disagree, workers disagree on the deadline.
pub fn check_idle(installation: &Installation) {
    if installation.was_any_process_killed()
        || installation.plan.storage_fails()
        || !installation.plan.max_clock_difference().is_zero()
    {
        return;
    }
    let items = installation.records.dump();
    let now = installation.observer.clock.now();
    installation.observer.check("idle", invariants::nothing_is_held(&items, now));
    installation.observer.check("idle", installation.observer.none_in_flight());
}

/// Whether the only faults are processes that were killed early enough to recover before the deadline.
fn only_killed_early(installation: &Installation) -> bool {
    let early = |fault: &PlannedFault| {
        matches!(
            fault,
            PlannedFault::Kill { back_after: Some(_), .. }
                | PlannedFault::KillAtCall { back_after: Some(_), .. }
                | PlannedFault::Messages { kind: MessageFault::DeliveredTwice, .. }
        ) && fault.end() < Duration::from_secs(25)
    };
    let visibility = installation.settings.page_visibility;
    installation.plan.faults.iter().all(early)
        && installation.plan.skews.iter().all(|skew| *skew == 0)
        && installation.settings.approval_threshold_usd.is_none()
        && installation.plan.timeout >= visibility + Duration::from_secs(75)
}

/// Whether every page that was planned for AI must be read by a model.
pub fn should_be_read(job: &Job) -> bool {
    job.state == State::Audited
}

/// Whether a model should have read every page: a budget may end before.
pub fn may_be_read(installation: &Installation, job: &Job) -> bool {
    should_be_read(job) && !installation.has_budget()
}

pub async fn all_read(inspector: &App, job: &Job) -> Result<(), String> {
    let Ok(Some(document)) = results::read_document(inspector.blobs.as_ref(), job, None).await else {
        return Err("its result can't be read".into());
    };
    let fallen: Vec<String> = document
        .pages
        .iter()
        .filter(|page| page.source.is_fallback())
        .map(|page| format!("page {}: {}", page.page, page.fallback_reason.as_deref().unwrap_or("")))
        .collect();
    if fallen.is_empty() { Ok(()) } else { Err(format!("not read by a model: {fallen:?}")) }
}
