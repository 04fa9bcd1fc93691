//! What is asked of a run that has come to rest.

use std::time::Duration;

use everypage_core::{
    app::App,
    domain::{
        job::{Job, State},
        outcome::Source,
        target::Target,
    },
    invariants,
    ports::clock::Clock,
    store::{dead, trail},
    usecases::{relay, result, sweep::SILENT, verify::verify_job, webhooks},
};

use crate::{
    models::reading,
    plan::Lock,
    story::{all_jobs, has_result},
    trouble::{Messages, Trouble, Wish, time},
    world::World,
};

/// A result is there this long after its deadline.
const AFTER_DEADLINE: Duration = Duration::from_secs(1);
/// Steps are tried again for 21 s, and an orphan is found after 5 s.
const TO_RECOVER: Duration = Duration::from_secs(60);

pub async fn of_every_job(world: &World, onlooker: &App) {
    for job in all_jobs(onlooker).await {
        let what = format!("job {}", job.id);
        world.witness.must(&what, ended_well(world, &job));
        world.witness.must(&what, in_time(world, &job));
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
    let told = webhooks::run_for(onlooker, TO_RECOVER).await;
    world.witness.must("webhooks", told.map(drop).map_err(|fault| fault.to_string()));
    let items = world.records.dump();
    world.witness.must("store", invariants::nothing_is_held(&items, onlooker.clock.now()));
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
        let aggregate = everypage_core::domain::event::Aggregate::Job(job.id.clone());
        stored.extend(trail::read(onlooker, &aggregate).await.unwrap_or_default());
        stored.extend(trail::read_pages(onlooker, &job.id).await.unwrap_or_default());
    }
    let published = world.witness.seen().events.clone();
    world.witness.must("events", invariants::published_in_order(&published, &stored));
}

fn document(world: &World, job: &Job) -> usize {
    world.witness.seen().documents.get(&job.id).copied().unwrap_or_default()
}

fn locked(world: &World, job: &Job) -> bool {
    world.plan.arrivals[document(world, job)].lock == Lock::Shut
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
    let disturbed = world.plan.storage_fails();
    let code = job.failure.as_ref().map_or("", |failure| failure.code.as_str());
    match job.state {
        State::Audited if locked(world, job) => Err("a locked document was read".into()),
        State::Audited => Ok(()),
        State::Cancelled if wished(&[Wish::Cancel]) => Ok(()),
        State::Rejected if wished(&[Wish::Reject]) => Ok(()),
        State::Failed if locked(world, job) => Ok(()),
        // Our own storage was not there for as long as it was tried, or for all of the job's time.
        State::Failed if disturbed && ["internal", "deadline"].contains(&code) => Ok(()),
        state => Err(format!("it ended as {state}: {:?}", job.failure)),
    }
}

/// The result is there in time: a second after its deadline, or as soon as may be after what
/// stood in its way.
fn in_time(world: &World, job: &Job) -> Result<(), String> {
    let published =
        world.witness.seen().published.get(&job.id).and_then(|versions| versions.first().copied());
    let Some(published) = published else {
        return if has_result(job) { Err("it has a result that was never published".into()) } else { Ok(()) };
    };
    let deadline = world.witness.since(job.deadline) + world.plan.spread();
    let before = deadline.saturating_sub(TO_RECOVER);
    let in_the_way = |trouble: &&Trouble| match trouble {
        Trouble::Storage { window, failing, .. } => {
            let until = window.until + dawdling(failing);
            window.from < deadline + AFTER_DEADLINE && until > before
        }
        Trouble::Kill { at, back_after, .. } => {
            back_after.is_none()
                || (*at < deadline + AFTER_DEADLINE && *at + back_after.unwrap_or_default() > before)
        }
        Trouble::KillAtCall { .. } => true,
        _ => false,
    };
    let over = world.plan.troubles.iter().filter(in_the_way).map(|trouble| match trouble {
        Trouble::Storage { window, failing, .. } => window.until + dawdling(failing),
        Trouble::Kill { back_after: None, .. } => world.plan.calm(),
        Trouble::KillAtCall { back_after, .. } => {
            back_after.map_or(world.plan.calm(), |back| deadline + back)
        }
        trouble => trouble.over(),
    });
    let latest = match over.max() {
        Some(over) => deadline.max(over) + TO_RECOVER,
        None => deadline + AFTER_DEADLINE,
    };
    if published <= latest {
        return Ok(());
    }
    Err(format!("published at {}, its deadline was {}", time(published), time(deadline)))
}

fn dawdling(failing: &crate::trouble::Failing) -> Duration {
    match failing {
        crate::trouble::Failing::Dawdles(by) => *by,
        _ => Duration::ZERO,
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
        if document.metadata.total_pages != pages {
            held.push(Err(format!("it has {} pages instead of {pages}", document.metadata.total_pages)));
        }
        for page in &document.pages {
            let number = page.page.get();
            let target = page.read_by.provider.zip(page.read_by.model.clone());
            let expected = match (&page.source, target) {
                (Source::Ai, Some((provider, model))) => {
                    reading(&Target::new(provider, model), index, number)
                }
                (Source::Ai, None) => "who read it".into(),
                _ => format!("layer of page {number} of d{index}"),
            };
            // A page that was not even read has no text to show.
            if page.has_text && page.text.trim() != expected {
                held.push(Err(format!("page {number} of version {version} says {:?}", page.text)));
            }
        }
    }
    held
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
