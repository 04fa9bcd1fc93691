//! One run from its first document to rest, and what is asked of it then.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everypage_core::{
    app::App,
    domain::{
        account::{self, AccountEvent},
        ids::{JobId, TenantId},
        job::{Job, State},
        secret::Secret,
    },
    ports::clock::{Clock, after},
    store::{
        accounts,
        dead::{self, Subject},
        jobs, purchases, webhooks,
    },
    usecases::{
        cancel::cancel,
        decide::{Decision, decide, modify},
        heal,
        intake::{Submission, submit},
        purchase,
        redrive::redrive,
        relay,
    },
};
use futures::FutureExt;
use tokio::task::JoinSet;

use crate::{
    mutants::Mutant,
    panics,
    plan::{BOUGHT, Lock, PASSWORD, PLENTY, Plan},
    promises,
    trouble::{Trouble, Wish, name, time},
    world::World,
};

/// What a run came to.
#[derive(Default)]
pub struct Verdict {
    /// What was broken; empty when all held.
    pub broken: Vec<String>,
    /// What happened, where it was wanted.
    pub story: Vec<String>,
    pub jobs: usize,
    pub calls: usize,
    /// How often each sort of trouble really struck.
    pub struck: BTreeMap<String, usize>,
}

/// How long after everything has calmed down a run may take to come to rest.
const TO_REST: Duration = Duration::from_secs(600);
/// A healed page has this long.
const TO_HEAL: Duration = Duration::from_secs(120);
/// As often as somebody patient tries it.
const HEALED_AT_MOST: usize = 8;
/// Longer than any lease.
const LEASES: Duration = Duration::from_secs(300);

pub fn tenant() -> TenantId {
    TenantId::new("local")
}

/// Runs a plan to its end, in virtual time.
pub fn run(plan: &Plan, mutant: Option<Mutant>, listening: bool) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = panics::heard(|| {
        let verdict = runtime.block_on(tell(World::new(plan.clone(), mutant, listening)));
        runtime.shutdown_background();
        verdict
    });
    let (verdict, panics) = told;
    let mut verdict = verdict.unwrap_or_default();
    verdict.broken.extend(panics);
    verdict
}

async fn tell(world: Arc<World>) -> Verdict {
    let subscribed = webhooks::set(&world.onlooker(), &tenant(), "https://example.com/hook").await;
    world.witness.must("webhook", subscribed.map(drop).map_err(|fault| fault.to_string()));
    if let Some(purse) = &world.plan.purse {
        world.payments.script_charges(purse.charges.iter().copied());
        world.payments.script_refunds(purse.refunds.iter().copied());
        grant(&world, purse.granted).await;
    }
    world.repair();
    let mut tasks = JoinSet::new();
    if let Some(purse) = &world.plan.purse {
        tasks.spawn(buy(world.clone(), purse.buys_at));
    }
    for document in 0..world.plan.arrivals.len() {
        tasks.spawn(arrive(world.clone(), document));
    }
    for trouble in world.plan.troubles.clone() {
        tasks.spawn(happen(world.clone(), trouble));
    }
    come_to_rest(&world, &mut tasks).await;
    let onlooker = world.onlooker();
    promises::of_every_job(&world, &onlooker).await;
    if world.witness.seen().broken.is_empty() {
        mend(&world, &onlooker, &mut tasks).await;
        promises::of_mended_jobs(&world, &onlooker).await;
    }
    world.stop();
    world.witness.clock.sleep(LEASES).await;
    promises::of_the_store(&world, &onlooker).await;
    let mut seen = world.witness.seen();
    Verdict {
        broken: std::mem::take(&mut seen.broken),
        story: std::mem::take(&mut seen.story),
        jobs: seen.documents.len(),
        calls: seen.calls,
        struck: std::mem::take(&mut seen.struck),
    }
}

/// By an operator whom nothing hinders.
async fn grant(world: &Arc<World>, credits: u64) {
    let cause = account::Cause::Operator { by: "operator".into(), note: "for the run".into() };
    let granted = AccountEvent::Added { credits, cause };
    let operator = world.onlooker();
    let done = accounts::change(&operator, &tenant(), "operator", &granted).await;
    world.witness.must("grant", done.map(drop).map_err(|error| error.to_string()));
    let told = relay::relay_own(&operator).await;
    world.witness.must("grant", told.map(drop).map_err(|fault| fault.to_string()));
}

/// Somebody who asks until it is written down; others take the steps.
async fn buy(world: Arc<World>, at: Duration) {
    world.witness.clock.sleep(at).await;
    let begun = |app: Arc<App>| {
        let wish = purchase::Wish {
            tenant: tenant(),
            by: "person".into(),
            credits: BOUGHT,
            method: Some(Secret::new("card")),
            idempotency_key: Some("order".into()),
        };
        async move { purchase::begin(&app, wish).await.is_ok() }.boxed()
    };
    while world.ask(begun).await != Some(true) {
        world.witness.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until every document has its end and nothing is on its way.
async fn come_to_rest(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    let onlooker = world.onlooker();
    let calm = world.plan.calm().max(world.witness.now());
    let last = calm + world.plan.timeout + TO_REST;
    loop {
        world.witness.clock.sleep(Duration::from_secs(1)).await;
        while let Some(ended) = tasks.try_join_next() {
            world.witness.must("the run itself", ended.map_err(|error| error.to_string()));
        }
        let now = world.witness.now();
        if now >= calm {
            world.repair();
        }
        let open = jobs::open(&onlooker).await.unwrap_or_default();
        let bought = purchases::under_way(&onlooker, 1).await.is_ok_and(|some| some.is_empty());
        if tasks.is_empty() && now >= calm && open.is_empty() && world.post.is_empty() && bought {
            break;
        }
        if now > last {
            let left: Vec<String> =
                open.iter().map(|job| format!("job {} is {}", job.id, job.state)).collect();
            let queue = if world.post.is_empty() { "" } else { ", messages are left in the queue" };
            let held = Err(format!("no rest after {}: {left:?}{queue}", time(now)));
            world.witness.must("accepted and never ended", held);
            break;
        }
    }
    // A worker may still be on its way back from the queue.
    world.witness.clock.sleep(Duration::from_secs(1)).await;
    promises::of_rest(world);
    // The last events go out.
    world.witness.clock.sleep(Duration::from_secs(30)).await;
}

/// A client, who tries until the document is accepted.
async fn arrive(world: Arc<World>, document: usize) {
    world.witness.clock.sleep(world.plan.arrivals[document].at).await;
    while submit_document(&world, document).await.is_none() {
        world.witness.clock.sleep(Duration::from_secs(1)).await;
    }
}

async fn submit_document(world: &Arc<World>, document: usize) -> Option<JobId> {
    let file = tempfile::NamedTempFile::new().ok()?;
    std::fs::write(file.path(), world.plan.document(document).bytes()).ok()?;
    let path = file.path().to_owned();
    let given = world.plan.arrivals[document].lock == Lock::Opened;
    let password = given.then(|| Secret::new(PASSWORD));
    let accepted = world.ask(move |app| {
        let submission = Submission {
            tenant: tenant(),
            user: None,
            source: "simulation".into(),
            name: format!("d{document}.pdf"),
            file: path,
            password,
            options: app.settings.default_options(),
            traceparent: None,
            idempotency_key: None,
        };
        async move { submit(&app, submission).await.ok() }.boxed()
    });
    let accepted = accepted.await.flatten()?;
    world.witness.note(|| format!("document {document} is accepted as job {}", accepted.job.id));
    Some(accepted.job.id)
}

async fn happen(world: Arc<World>, trouble: Trouble) {
    let clock = world.witness.clock.clone();
    match trouble {
        Trouble::Kill { process, at, back_after } => {
            clock.sleep(at).await;
            world.kill(process, back_after, "at a moment").await;
        }
        Trouble::SecondDriver { document, process, at } => {
            clock.sleep(at).await;
            if let Some(job) = job_of(&world, document) {
                world.witness.note(|| format!("process {process} drives job {job} too"));
                world.witness.struck("a second driver");
                world.drive_too(process, &job);
            }
        }
        Trouble::Person { at, document, wish } => {
            clock.sleep(at).await;
            world.witness.note(|| format!("somebody wishes: {wish:?} of document {document}"));
            world.witness.struck(&format!("somebody wishes: {}", name(&wish)));
            wished(&world, document, wish).await;
        }
        // These lie in the weather, the models, the post and the reader.
        Trouble::Storage { .. }
        | Trouble::KillAtCall { .. }
        | Trouble::Model { .. }
        | Trouble::Messages { .. }
        | Trouble::Reader { .. } => {}
    }
}

fn job_of(world: &World, document: usize) -> Option<JobId> {
    let seen = world.witness.seen();
    seen.documents.iter().find(|(_, of)| **of == document).map(|(job, _)| job.clone())
}

/// What people wish may be refused, for good reasons or for bad luck: they don't insist.
async fn wished(world: &Arc<World>, document: usize, wish: Wish) {
    let Some(job) = job_of(world, document) else { return };
    match wish {
        Wish::SubmitAgain => drop(submit_document(world, document).await),
        Wish::Redrive => redrive_all(world).await,
        Wish::Cancel => {
            world.ask(move |app| async move { cancel(&app, &job, "person").await.is_ok() }.boxed()).await;
        }
        Wish::Heal => {
            world.ask(move |app| async move { heal::send(&app, &job, TO_HEAL).await.is_ok() }.boxed()).await;
        }
        Wish::Modify(left) => {
            let asked = move |app: Arc<App>| {
                async move {
                    let deadline = after(app.clock.now(), left);
                    modify(&app, &job, "person", |job| job.deadline = deadline).await.is_ok()
                }
                .boxed()
            };
            world.ask(asked).await;
        }
        Wish::Approve | Wish::Reject => {
            let decision = match wish {
                Wish::Approve => Decision::Approve,
                _ => Decision::Reject { reason: "not worth it".into() },
            };
            let decided = move |app: Arc<App>| {
                async move { decide(&app, &job, "person", decision).await.is_ok() }.boxed()
            };
            world.ask(decided).await;
        }
    }
}

fn password_of(world: &World, job: &JobId) -> Option<Secret> {
    let document = world.witness.seen().documents.get(job).copied()?;
    (world.plan.arrivals[document].lock == Lock::Opened).then(|| Secret::new(PASSWORD))
}

async fn redrive_all(world: &Arc<World>) {
    let letters = dead::waiting(&world.onlooker(), 1000).await.unwrap_or_default();
    for letter in letters {
        // A job that failed has forgotten its password: whoever sends it back gives it again.
        let password = match &letter.value.subject {
            Subject::Job { job } => password_of(world, job),
            _ => None,
        };
        let id = letter.value.id;
        let redriven =
            move |app: Arc<App>| async move { redrive(&app, &id, "person", password).await.is_ok() }.boxed();
        world.ask(redriven).await;
    }
}

/// Everything is well again, and somebody cleans up: dead letters are redriven and results healed.
async fn mend(world: &Arc<World>, onlooker: &App, tasks: &mut JoinSet<()>) {
    world.witness.note(|| "all is well again, and everything is mended".into());
    world.make_peace();
    if world.plan.credits_are_scarce() {
        grant(world, PLENTY).await;
    }
    redrive_all(world).await;
    come_to_rest(world, tasks).await;
    // A model that probes reads one page, and the others fall back once more.
    for _ in 0..HEALED_AT_MOST {
        let mut asked = false;
        for job in all_jobs(onlooker).await {
            if promises::should_be_read(&job) && promises::all_read(onlooker, &job).await.is_err() {
                asked = true;
                let id = job.id.clone();
                let heal =
                    move |app: Arc<App>| async move { heal::send(&app, &id, TO_HEAL).await.is_ok() }.boxed();
                world.ask(heal).await;
            }
        }
        if !asked {
            break;
        }
        come_to_rest(world, tasks).await;
    }
}

pub async fn all_jobs(onlooker: &App) -> Vec<Job> {
    jobs::list(onlooker, &tenant(), 1000).await.unwrap_or_default()
}

/// Did the job end with a result that was meant to be whole?
pub fn has_result(job: &Job) -> bool {
    matches!(job.state, State::Executed | State::Audited | State::Cancelled) && job.result.is_some()
}
