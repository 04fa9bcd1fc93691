//! What is asked of a run that has come to rest.

use std::time::Duration;

use everypage_core::{
    app::App,
    domain::{
        account::Cause,
        event::Aggregate,
        job::{Halt, Job, State},
        outcome::{MicroUsd, Source},
        purchase::{
            Purchase,
            State::{Compensated, Completed, Manual},
        },
        target::Target,
    },
    invariants,
    ports::clock::Clock,
    store::{accounts, dead, listing, trail},
    usecases::{
        relay, result,
        sweep::{SILENT, collect_dead},
        verify::{verify_account, verify_job},
        webhooks,
    },
};

use crate::{
    delays,
    models::reading,
    plan::{BOUGHT, Lock, PLENTY, PRICE},
    story::{all_jobs, has_result, tenant},
    trouble::{Messages, Trouble, Window, Wish, time},
    witness::Life,
    world::World,
};

/// Nobody ends a job for its deadline earlier than this before it.
const CLOCKS_DIFFER: Duration = Duration::from_secs(5);
/// Longer than a webhook is tried for.
const TO_TELL: Duration = Duration::from_secs(60);
/// Whoever drives a job looks every second whether somebody asked for its end.
const SEEN_BY_ALL: Duration = Duration::from_secs(1);

pub async fn of_every_job(world: &World, onlooker: &App) {
    for job in all_jobs(onlooker).await {
        let what = format!("job {}", job.id);
        world.witness.must(&what, ended_well(world, &job));
        for held in in_time(world, &job) {
            world.witness.must(&what, held);
        }
        for held in whole_and_true(world, onlooker, &job).await {
            world.witness.must(&what, held);
        }
        if only_killed_early(world) && should_be_read(&job) {
            world.witness.must(&what, all_read(onlooker, &job).await);
        }
    }
}

pub async fn of_mended_jobs(world: &World, onlooker: &App) {
    for job in all_jobs(onlooker).await {
        let what = format!("mended job {}", job.id);
        for held in in_time(world, &job) {
            world.witness.must(&what, held);
        }
        for held in whole_and_true(world, onlooker, &job).await {
            world.witness.must(&what, held);
        }
        if job.state == State::Failed && !locked(world, &job) {
            let failure = Err(format!("it failed again: {:?}", job.failure));
            world.witness.must(&what, failure);
        }
        if should_be_read(&job) {
            world.witness.must(&what, all_read(onlooker, &job).await);
        }
    }
}

/// Nothing is left behind, with everybody gone and every lease run out.
pub async fn of_the_store(world: &World, onlooker: &App) {
    world.witness.clock.sleep(SILENT).await;
    let relayed = relay::relay_silent(onlooker, SILENT).await;
    world.witness.must("outbox", relayed.map(drop).map_err(|fault| fault.to_string()));
    let told = webhooks::run_for(onlooker, TO_TELL).await;
    world.witness.must("webhooks", told.map(drop).map_err(|fault| fault.to_string()));
    let items = world.records.dump();
    world.witness.must("store", invariants::nothing_is_held(&items, onlooker.clock.now()));
    let collected = collect_dead(onlooker).await;
    world.witness.must("dead messages", collected.map(drop).map_err(|error| error.to_string()));
    for letter in dead::waiting(onlooker, 1000).await.unwrap_or_default() {
        let letter = letter.value;
        let said = if letter.reason.trim().is_empty() { Err("it does not say why".into()) } else { Ok(()) };
        world.witness.must(&format!("dead letter {}", letter.id), said);
    }
    let told = world.hooks.calls();
    let given_up = dead::waiting(onlooker, 1000).await.unwrap_or_default();
    let mut stored = Vec::new();
    for job in all_jobs(onlooker).await {
        let id = format!("\"id\":\"{}\"", job.id);
        let given_up = given_up.iter().any(|letter| letter.value.correlation_id == job.correlation_id);
        let heard = given_up || told.iter().any(|call| call.body.contains(&id));
        let silence = || Err("nobody was told of its end".to_owned());
        world.witness.must(&format!("job {}", job.id), if heard { Ok(()) } else { silence() });
        let aggregate = Aggregate::Job(job.id.clone());
        stored.extend(trail::read(onlooker, &aggregate).await.unwrap_or_default());
        stored.extend(trail::read_pages(onlooker, &job.id).await.unwrap_or_default());
    }
    for aggregate in books(onlooker).await {
        stored.extend(trail::read(onlooker, &aggregate).await.unwrap_or_default());
    }
    for held in accounts_are_right(world, onlooker).await {
        world.witness.must("books", held);
    }
    let published = world.witness.seen().events.clone();
    world.witness.must("events", invariants::published_in_order(&published, &stored));
}

async fn bought(onlooker: &App) -> Vec<Purchase> {
    listing::purchases(onlooker, &tenant(), None, 100).await.map(|piece| piece.items).unwrap_or_default()
}

async fn books(onlooker: &App) -> Vec<Aggregate> {
    let bought = bought(onlooker).await.into_iter().map(|purchase| Aggregate::Purchase(purchase.id));
    bought.chain([Aggregate::Account(tenant())]).collect()
}

/// What was given and bought is there, but for what was read; and nobody holds any of it.
async fn accounts_are_right(world: &World, onlooker: &App) -> Vec<Result<(), String>> {
    let Some(purse) = &world.plan.purse else { return vec![] };
    let mut held = Vec::new();
    match verify_account(onlooker, &tenant()).await {
        Ok(findings) if findings.is_empty() => {}
        found => held.push(Err(format!("they do not verify: {found:?}"))),
    }
    let Ok(account) = accounts::load(onlooker, &tenant()).await else { return held };
    let account = account.value;
    if (account.reserved, account.ordered, account.allocated) != (0, 0, 0) {
        held.push(Err(format!("credits are held at rest: {account:?}")));
    }
    let bought = bought(onlooker).await;
    let [purchase] = bought.as_slice() else {
        held.push(Err(format!("one purchase was begun: {bought:?}")));
        return held;
    };
    let (paid, income) =
        (if purchase.state == Completed { PRICE } else { MicroUsd(0) }, world.payments.income());
    match purchase.state {
        Completed | Compensated if income == paid => {}
        // A service that nobody reaches gives nothing back: a person has to.
        Manual if world.plan.storage_fails() => {}
        state => held.push(Err(format!("a purchase is {state:?} and {income:?} was taken"))),
    }
    let lines = accounts::ledger(onlooker, &tenant()).await.unwrap_or_default();
    let given = lines.iter().filter(|line| !matches!(line.cause, Cause::Job { .. }));
    let given = given.map(|line| line.amount).sum::<i64>() as u64;
    if given % PLENTY != (purse.granted + if purchase.state == Completed { BOUGHT } else { 0 }) % PLENTY {
        held.push(Err(format!("{given} were given and bought: {lines:?}")));
    }
    let read: u64 = all_jobs(onlooker)
        .await
        .iter()
        .filter(|job| job.state == State::Audited)
        .filter_map(|job| job.result.as_ref())
        .map(|result| u64::from(result.metadata.credits))
        .sum();
    // Where there was little, a race may have left a healed page unpaid.
    let right = match world.plan.credits_are_scarce() {
        true => account.balance + read >= given && account.balance <= given,
        false => account.balance + read == given,
    };
    if !right {
        held.push(Err(format!("{given} were given, {read} pages read, and {} are left", account.balance)));
    }
    if world.records.dump().iter().any(|item| item.draft.key.sort == "method") {
        held.push(Err("how a purchase was paid is still known".into()));
    }
    held
}

fn document(world: &World, job: &Job) -> usize {
    world.witness.seen().documents.get(&job.id).copied().unwrap_or_default()
}

fn locked(world: &World, job: &Job) -> bool {
    world.plan.arrivals[document(world, job)].lock == Lock::Shut
}

/// The last one that it had.
fn life(world: &World, job: &Job) -> Window {
    let seen = world.witness.seen();
    let life = seen.lives.get(&(job.id.clone(), job.redrives));
    let from = life.map_or(Duration::ZERO, |life| life.from);
    let until = life.and_then(|life| life.closed).unwrap_or(Duration::MAX);
    Window { from, until }
}

/// Every job has an end, and one that it may have.
fn ended_well(world: &World, job: &Job) -> Result<(), String> {
    let wished = |wishes: &[Wish]| {
        world
            .plan
            .troubles
            .iter()
            .any(|trouble| matches!(trouble, Trouble::Person { wish, .. } if wishes.contains(wish)))
    };
    match job.state {
        State::Audited if locked(world, job) => Err("a locked document was read".into()),
        State::Audited => Ok(()),
        State::Cancelled if wished(&[Wish::Cancel]) => Ok(()),
        State::Rejected if wished(&[Wish::Reject]) || world.plan.credits_are_scarce() => Ok(()),
        State::Failed if locked(world, job) => Ok(()),
        State::Failed => delays::may_fail(world, job, life(world, job)),
        state => Err(format!("it ended as {state}: {:?}", job.failure)),
    }
}

/// The result, or the word that there will be none, is there in time: a second after the deadline or
/// after somebody asked for the end, or as soon as may be after what stood in its way.
fn in_time(world: &World, job: &Job) -> Vec<Result<(), String>> {
    let lives: Vec<Life> = {
        let seen = world.witness.seen();
        let own = seen.lives.iter().filter(|((id, _), _)| *id == job.id);
        own.map(|(_, life)| life.clone()).collect()
    };
    lives.iter().map(|life| ended_in_time(world, life)).collect()
}

fn ended_in_time(world: &World, life: &Life) -> Result<(), String> {
    let deadline = world.witness.since(life.deadline) + world.plan.spread();
    let due = life.cancelled.map_or(deadline, |asked| deadline.min(asked + SEEN_BY_ALL));
    let latest = delays::latest_end(world, due);
    let late = |what: &str, at: Duration| {
        Err(format!("{what} at {}, due at {}, {} at the latest", time(at), time(due), time(latest)))
    };
    match (life.ended, life.closed) {
        (Some((state, at)), _) if at > latest => late(&format!("{state}"), at),
        (_, Some(at)) if at > latest => late("closed", at),
        (Some(_), Some(_)) => Ok(()),
        _ => Err("it never ended".into()),
    }
}

/// Every version of the result is whole, has each page's own text, and its trail verifies.
async fn whole_and_true(world: &World, onlooker: &App, job: &Job) -> Vec<Result<(), String>> {
    let mut held = Vec::new();
    match verify_job(onlooker, &job.id).await {
        Ok(report) if report.findings.is_empty() => {}
        Ok(report) => held.push(Err(format!("its trail does not verify: {:?}", report.findings))),
        Err(error) => held.push(Err(format!("its trail can't be read: {error}"))),
    }
    if !has_result(job) {
        return held;
    }
    let index = document(world, job);
    let pages = world.plan.arrivals[index].pages;
    let versions = job.result.as_ref().map_or(0, |result| result.version);
    for version in 1..=versions {
        let read = result::read_document(onlooker, job, Some(version)).await;
        let Ok(Some(document)) = read else {
            held.push(Err(format!("version {version} can't be read: {read:?}")));
            continue;
        };
        held.push(invariants::whole(&document));
        if version == 1 && job.redrives == 0 && document.metadata.timeout_occurred {
            held.push(not_before_its_deadline(world, job));
        }
        if document.metadata.total_pages != pages {
            held.push(Err(format!("it has {} pages instead of {pages}", document.metadata.total_pages)));
        }
        for page in &document.pages {
            let number = page.page.get();
            let blank = world.plan.arrivals[index].blank && number == pages;
            let target = page.read_by.provider.zip(page.read_by.model.clone());
            let expected = match (&page.source, target) {
                (Source::Ai, Some((provider, model))) => {
                    reading(&Target::new(provider, model), index, number)
                }
                (Source::Ai, None) => "who read it".into(),
                _ if blank => String::new(),
                _ => format!("layer of page {number} of d{index}"),
            };
            // A page that was not even read before the end came has no text to show.
            let unread = !page.has_text && may_be_unread(world, job);
            if !unread && page.text.trim() != expected {
                held.push(Err(format!("page {number} of version {version} says {:?}", page.text)));
            }
        }
    }
    held
}

/// A job that says that its time was up had all of it, as far as clocks agree.
fn not_before_its_deadline(world: &World, job: &Job) -> Result<(), String> {
    let seen = world.witness.seen();
    let published = seen.published.get(&job.id).and_then(|versions| versions.first().copied());
    let due = world.witness.since(job.deadline).saturating_sub(world.plan.spread() + CLOCKS_DIFFER);
    match published {
        Some(at) if at < due => {
            Err(format!("its time was up at {}, which is before {}", time(at), time(due)))
        }
        _ => Ok(()),
    }
}

/// Did the end come before the text of all pages was read, which takes no time where nothing is in
/// the way?
fn may_be_unread(world: &World, job: &Job) -> bool {
    let incomplete = job.survey.as_ref().is_some_and(|survey| !survey.complete);
    let hindered = world.was_anybody_killed()
        || world.plan.storage_fails()
        || job.halt == Some(Halt::Cancelled)
        || world.plan.troubles.iter().any(|trouble| matches!(trouble, Trouble::Reader { .. }));
    incomplete && hindered
}

/// Nothing is held by anybody who is at rest. Whoever was killed, or could not give back what it
/// held, holds it until its lease runs out; and where clocks disagree, so do workers on whether the
/// deadline has come.
pub fn of_rest(world: &World) {
    if world.was_anybody_killed() || world.plan.storage_fails() || !world.plan.spread().is_zero() {
        return;
    }
    let items = world.records.dump();
    let now = world.witness.clock.now();
    world.witness.must("at rest", invariants::nothing_is_held(&items, now));
    world.witness.must("at rest", world.witness.none_in_flight());
}

/// Nothing went wrong but that processes were killed, with time enough to make up for it.
fn only_killed_early(world: &World) -> bool {
    let early = |trouble: &Trouble| {
        matches!(
            trouble,
            Trouble::Kill { back_after: Some(_), .. }
                | Trouble::KillAtCall { back_after: Some(_), .. }
                | Trouble::Messages { messages: Messages::ComeTwice, .. }
        ) && trouble.over() < Duration::from_secs(25)
    };
    let visibility = world.settings.page_visibility;
    world.plan.troubles.iter().all(early)
        && world.plan.skews.iter().all(|skew| *skew == 0)
        && world.settings.approval_threshold_usd.is_none()
        && world.plan.timeout >= visibility + Duration::from_secs(75)
}

/// Was everything that an AI was to read to be read by one?
pub fn should_be_read(job: &Job) -> bool {
    job.state == State::Audited
}

pub async fn all_read(onlooker: &App, job: &Job) -> Result<(), String> {
    let Ok(Some(document)) = result::read_document(onlooker, job, None).await else {
        return Err("its result can't be read".into());
    };
    let fallen: Vec<String> = document
        .pages
        .iter()
        .filter(|page| page.source.is_fallback())
        .map(|page| format!("page {}: {}", page.page, page.why.as_deref().unwrap_or("")))
        .collect();
    if fallen.is_empty() { Ok(()) } else { Err(format!("not read by an AI: {fallen:?}")) }
}
