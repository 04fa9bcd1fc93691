//! One run, from its first document until it is idle, and the checks of its end state.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everypage_core::{
    admission::line,
    app::App,
    billing::{
        account::{self, AccountEvent},
        accounts, buy, purchases,
    },
    dead_letters::{self, Subject},
    finish::heal,
    ids::{JobId, TenantId},
    intake::submit::{Submission, submit},
    job::{Job, JobOptions, RequestSource, State, cancel::cancel, jobs},
    notify::{relay, webhooks},
    plan::decide::{Decision, decide, modify},
    ports::clock::Clock,
    recover::redrive::redrive,
    secret::Secret,
    time::after,
};
use futures::FutureExt;
use tokio::task::JoinSet;

use crate::{
    broken_variants::BrokenVariant,
    faults::{PlannedFault, UserAction, name, time},
    installation::Installation,
    invariants, panics,
    run_plan::{BOUGHT, PASSWORD, PLENTY, Password, RunPlan},
};

/// The result of a run.
#[derive(Default)]
pub struct Verdict {
    /// Broken invariants; empty when all held.
    pub broken: Vec<String>,
    /// What happened, if a log was requested.
    pub log: Vec<String>,
    pub jobs: usize,
    pub calls: usize,
    /// How often each kind of fault occurred.
    pub fault_counts: BTreeMap<String, usize>,
}

/// How long a run may take to become idle after its last fault.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The time that a healed page gets.
const HEAL_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a patient operator heals a job.
const MAX_HEALS: usize = 8;
/// Longer than any lease.
const LEASES_EXPIRE: Duration = Duration::from_secs(300);

pub fn tenant() -> TenantId {
    TenantId::new("local")
}

/// Runs a plan to its end, in virtual time.
pub fn run(plan: &RunPlan, variant: Option<BrokenVariant>, keep_log: bool) -> Verdict {
    let (verdict, panics) =
        panics::capture(|| in_virtual_time(|| Installation::new(plan.clone(), variant, keep_log), simulate));
    let mut verdict = verdict.unwrap_or_default();
    verdict.broken.extend(panics);
    verdict
}

/// Makes something and uses it, both in virtual time that starts at a whole millisecond. Outside of the runtime
/// its clock would start at the machine's time: timers, which count whole milliseconds from the runtime's start,
/// would then fire in another order in every run.
fn in_virtual_time<T, F: Future>(make: impl FnOnce() -> T, work: impl FnOnce(T) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let done = runtime.block_on(async { work(make()).await });
    runtime.shutdown_background();
    done
}

async fn simulate(installation: Arc<Installation>) -> Verdict {
    let app = installation.inspector();
    let subscribed =
        webhooks::set(&app.store, app.vault.as_ref(), &tenant(), "https://example.com/hook", "test").await;
    installation.observer.check("webhook", subscribed.map(drop).map_err(|fault| fault.to_string()));
    if let Some(credits) = &installation.plan.credits {
        installation.payments.script_charges(credits.charges.iter().copied());
        installation.payments.script_refunds(credits.refunds.iter().copied());
        grant(&installation, credits.granted).await;
    }
    installation.repair();
    let mut tasks = JoinSet::new();
    if let Some(credits) = &installation.plan.credits {
        tasks.spawn(buy(installation.clone(), credits.buys_at));
    }
    for document in 0..installation.plan.arrivals.len() {
        tasks.spawn(arrive(installation.clone(), document));
    }
    for fault in installation.plan.faults.clone() {
        tasks.spawn(inject(installation.clone(), fault));
    }
    wait_until_idle(&installation, &mut tasks).await;
    let inspector = installation.inspector();
    invariants::check_every_job(&installation, &inspector).await;
    if installation.observer.seen().broken.is_empty() {
        repair_all(&installation, &inspector, &mut tasks).await;
        invariants::check_repaired_jobs(&installation, &inspector).await;
    }
    installation.stop_all();
    installation.observer.clock.sleep(LEASES_EXPIRE).await;
    invariants::check_store(&installation, &inspector).await;
    let mut seen = installation.observer.seen();
    Verdict {
        broken: std::mem::take(&mut seen.broken),
        log: std::mem::take(&mut seen.log),
        jobs: seen.documents.len(),
        calls: seen.calls.len(),
        fault_counts: std::mem::take(&mut seen.fault_counts),
    }
}

/// Grants credits, as an operator without faults.
async fn grant(installation: &Arc<Installation>, credits: u64) {
    let cause = account::Cause::Operator { by: "operator".into(), note: "for the run".into() };
    let granted = AccountEvent::Added { credits, cause };
    let operator = installation.inspector();
    let done = accounts::change(&operator.store, &tenant(), "operator", &granted).await;
    installation.observer.check("grant", done.map(drop).map_err(|error| error.to_string()));
    let relayed = relay::relay_own(&operator.publisher).await;
    installation.observer.check("grant", relayed.map(drop).map_err(|fault| fault.to_string()));
}

/// A user who retries until the purchase is stored; the processes carry it out.
async fn buy(installation: Arc<Installation>, at: Duration) {
    installation.observer.clock.sleep(at).await;
    let begin = |app: Arc<App>| {
        let order = buy::PurchaseRequest {
            tenant: tenant(),
            by: "person".into(),
            credits: BOUGHT,
            method: Some(Secret::new("card")),
            idempotency_key: Some("order".into()),
        };
        async move { buy::start(&app.billing, order).await.is_ok() }.boxed()
    };
    while installation.request(begin).await != Some(true) {
        installation.observer.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until every job has ended and nothing is in progress.
async fn wait_until_idle(installation: &Arc<Installation>, tasks: &mut JoinSet<()>) {
    let inspector = installation.inspector();
    let faults_end = installation.plan.faults_end().max(installation.observer.now());
    let last = faults_end + installation.plan.timeout + IDLE_TIMEOUT;
    loop {
        installation.observer.clock.sleep(Duration::from_secs(1)).await;
        while let Some(ended) = tasks.try_join_next() {
            installation.observer.check("the run itself", ended.map_err(|error| error.to_string()));
        }
        let now = installation.observer.now();
        if now >= faults_end {
            installation.repair();
        }
        let mut open = jobs::open(&inspector.store).await.unwrap_or_default();
        open.extend(line::waiting(&inspector.store).await.unwrap_or_default());
        let no_purchase = purchases::list_active(&inspector.store, 1).await.is_ok_and(|open| open.is_empty());
        if tasks.is_empty()
            && now >= faults_end
            && open.is_empty()
            && installation.queue.is_empty()
            && no_purchase
        {
            break;
        }
        if now > last {
            let open: Vec<String> =
                open.iter().map(|job| format!("job {} is {}", job.id, job.state)).collect();
            let queue = if installation.queue.is_empty() { "" } else { ", messages are left in the queue" };
            let stuck = Err(format!("not idle after {}: {open:?}{queue}", time(now)));
            installation.observer.check("accepted and never ended", stuck);
            break;
        }
    }
    // A worker may still be waiting for a reply of the queue.
    installation.observer.clock.sleep(Duration::from_secs(1)).await;
    invariants::check_idle(installation);
    // The last events are published.
    installation.observer.clock.sleep(Duration::from_secs(30)).await;
}

/// A client that retries until the document is accepted.
async fn arrive(installation: Arc<Installation>, document: usize) {
    installation.observer.clock.sleep(installation.plan.arrivals[document].at).await;
    while submit_document(&installation, document).await.is_none() {
        installation.observer.clock.sleep(Duration::from_secs(1)).await;
    }
}

async fn submit_document(installation: &Arc<Installation>, document: usize) -> Option<JobId> {
    let file = tempfile::NamedTempFile::new().ok()?;
    std::fs::write(file.path(), installation.plan.document(document).bytes()).ok()?;
    let path = file.path().to_owned();
    let given = installation.plan.arrivals[document].password == Password::Given;
    let password = given.then(|| Secret::new(PASSWORD));
    let accepted = installation.request(move |app| {
        let submission = Submission {
            tenant: tenant(),
            user: None,
            source: RequestSource::Cli,
            name: format!("d{document}.pdf"),
            file: path,
            password,
            options: JobOptions::from_settings(&app.settings),
            traceparent: None,
            idempotency_key: None,
        };
        async move { submit(&app.intake, submission).await.ok() }.boxed()
    });
    let accepted = accepted.await.flatten()?;
    installation.observer.log(|| format!("document {document} is accepted as job {}", accepted.job.id));
    Some(accepted.job.id)
}

async fn inject(installation: Arc<Installation>, fault: PlannedFault) {
    let clock = installation.observer.clock.clone();
    match fault {
        PlannedFault::Kill { process, at, back_after } => {
            clock.sleep(at).await;
            installation.kill(process, back_after, "at a moment").await;
        }
        PlannedFault::SecondDriver { document, process, at } => {
            clock.sleep(at).await;
            if let Some(job) = job_of(&installation, document) {
                installation.observer.log(|| format!("process {process} also drives job {job}"));
                installation.observer.count_fault("a second driver");
                installation.drive_concurrently(process, &job);
            }
        }
        PlannedFault::User { at, document, action } => {
            clock.sleep(at).await;
            installation.observer.log(|| format!("user action: {action:?} for document {document}"));
            installation.observer.count_fault(&format!("user action: {}", name(&action)));
            perform(&installation, document, action).await;
        }
        // Injected by ChaosCalls, Models, ChaosQueue and FaultyReader.
        PlannedFault::Storage { .. }
        | PlannedFault::KillAtCall { .. }
        | PlannedFault::Model { .. }
        | PlannedFault::Messages { .. }
        | PlannedFault::Reader { .. } => {}
    }
}

fn job_of(installation: &Installation, document: usize) -> Option<JobId> {
    let seen = installation.observer.seen();
    seen.documents.iter().find(|(_, of)| **of == document).map(|(job, _)| job.clone())
}

/// Performs a user's action once. It may be refused, or fail by a fault: users do not retry.
async fn perform(installation: &Arc<Installation>, document: usize, action: UserAction) {
    let Some(job) = job_of(installation, document) else { return };
    match action {
        UserAction::SubmitAgain => drop(submit_document(installation, document).await),
        UserAction::Redrive => redrive_all(installation).await,
        UserAction::Cancel => {
            installation
                .request(move |app| {
                    async move {
                        cancel(&app.store, app.flow.as_ref(), &app.interrupts, &job, "person").await.is_ok()
                    }
                    .boxed()
                })
                .await;
        }
        UserAction::Heal => {
            installation
                .request(move |app| {
                    async move { heal::send(&app.finisher, &job, HEAL_TIMEOUT).await.is_ok() }.boxed()
                })
                .await;
        }
        UserAction::Modify(remaining) => {
            let modified = move |app: Arc<App>| {
                async move {
                    let deadline = after(app.store.clock.now(), remaining);
                    modify(&app.planner, &job, "person", |job| job.deadline = deadline).await.is_ok()
                }
                .boxed()
            };
            installation.request(modified).await;
        }
        UserAction::Approve | UserAction::Reject => {
            let decision = match action {
                UserAction::Approve => Decision::Approve,
                _ => Decision::Reject { reason: "not worth it".into() },
            };
            let decided = move |app: Arc<App>| {
                async move { decide(&app.planner, &job, "person", decision).await.is_ok() }.boxed()
            };
            installation.request(decided).await;
        }
    }
}

fn password_of(installation: &Installation, job: &JobId) -> Option<Secret> {
    let document = installation.observer.seen().documents.get(job).copied()?;
    (installation.plan.arrivals[document].password == Password::Given).then(|| Secret::new(PASSWORD))
}

async fn redrive_all(installation: &Arc<Installation>) {
    let dead_letters = dead_letters::waiting(&installation.inspector().store, 1000).await.unwrap_or_default();
    for dead_letter in dead_letters {
        // The password of a failed job was deleted: the redrive has to give it again.
        let password = match &dead_letter.value.subject {
            Subject::Job { job } => password_of(installation, job),
            _ => None,
        };
        let id = dead_letter.value.id;
        let redriven = move |app: Arc<App>| {
            async move { redrive(&app.recovery, &id, "person", password).await.is_ok() }.boxed()
        };
        installation.request(redriven).await;
    }
}

/// Once all faults are over, an operator redrives the dead letters and heals the results.
async fn repair_all(installation: &Arc<Installation>, inspector: &App, tasks: &mut JoinSet<()>) {
    installation.observer.log(|| "all faults are over, and everything is repaired".into());
    installation.end_process_faults();
    if installation.plan.credits_are_scarce() {
        grant(installation, PLENTY).await;
    }
    redrive_all(installation).await;
    wait_until_idle(installation, tasks).await;
    // A half-open breaker lets one page through, and the others fall back once more.
    for _ in 0..MAX_HEALS {
        let mut healed = false;
        for job in all_jobs(inspector).await {
            if invariants::may_be_read(installation, &job)
                && invariants::all_read(inspector, &job).await.is_err()
            {
                healed = true;
                let id = job.id.clone();
                let heal = move |app: Arc<App>| {
                    async move { heal::send(&app.finisher, &id, HEAL_TIMEOUT).await.is_ok() }.boxed()
                };
                installation.request(heal).await;
            }
        }
        if !healed {
            break;
        }
        wait_until_idle(installation, tasks).await;
    }
}

pub async fn all_jobs(inspector: &App) -> Vec<Job> {
    jobs::list(&inspector.store, &tenant(), 1000).await.unwrap_or_default()
}

/// Whether the job ended with a result.
pub fn has_result(job: &Job) -> bool {
    matches!(job.state, State::Executed | State::Audited | State::Cancelled) && job.result.is_some()
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::clock::Clock;
    use everypage_testkit::clock::{VirtualClock, epoch};

    use super::*;

    #[test]
    fn virtual_time_is_exact_whatever_the_machine_does() {
        let woken = in_virtual_time(VirtualClock::default, |clock| async move {
            clock.sleep(Duration::from_millis(5)).await;
            clock.now()
        });
        assert_eq!(woken, after(epoch(), Duration::from_millis(5)));
    }
}
