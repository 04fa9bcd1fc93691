//! Healing: pages that were read after the result was published replace their fallback in a new version.
//! A published version never changes.

use async_trait::async_trait;
use std::{collections::HashMap, time::Duration};

use tracing::warn;

use crate::{
    event::Actor,
    events::Store,
    finish::{Finisher, finalize::seal, healing, result::Cause, results},
    ids::{JobId, PageNumber},
    job::{Job, JobEvent, StepCode, StepError, credits, jobs, message::ImageRef},
    plan::propose::manifest,
    ports::{Fault, blobs::Blobs, queue::Outgoing},
    prepare,
    read::{
        LatePages,
        pages::{self, Page},
    },
    records::Versioned,
    source::Source,
    time::after,
};

/// Pages that are read within this time after a version go into the next one together.
const VERSION_INTERVAL: Duration = Duration::from_secs(2);
/// Largest result that a worker publishes, in pages. A larger one takes more memory than a worker has on
/// AWS, and running out of it would lose the pages that it reads meanwhile.
const MAX_PAGES_BY_WORKER: u32 = 2000;
/// How often abandoned publications are looked for, and how many are completed then.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
const BATCH_SIZE: usize = 100;

/// Publishes a new version if pages were read since the last one; returns the job.
pub async fn publish(finisher: &Finisher, id: &JobId) -> Result<Job, StepError> {
    loop {
        let job = jobs::load(&finisher.store, id).await?.value;
        if !job.is_healable() || !has_news(&finisher.store, finisher.blobs.as_ref(), &job).await? {
            return Ok(job);
        }
        let Some(latest) = &job.result else { return Ok(job) };
        let version = latest.version + 1;
        let cause = if latest.metadata.timeout_occurred { Cause::Deadline } else { Cause::Settled };
        let published = results::publish(finisher, &job, version, cause).await?;
        let pages_digest = seal(&finisher.store, finisher.blobs.as_ref(), id).await?;
        jobs::advance(&finisher.store, Actor::Finalize, id, |now| {
            let next = now.result.as_ref().is_some_and(|result| result.version + 1 == version);
            if now.is_healable() && next {
                vec![JobEvent::Healed { result: published.clone(), pages_digest: pages_digest.clone() }]
            } else {
                vec![]
            }
        })
        .await?;
    }
}

/// Publishes a page that was settled after the result was published: by the caller, or by the worker that
/// publishes already, so that many pages make few versions. A large result is left to [`take_over`].
async fn publish_late_page(finisher: &Finisher, id: &JobId) -> Result<(), StepError> {
    let job = jobs::load(&finisher.store, id).await?.value;
    let pages = job.result.as_ref().map_or(0, |result| result.metadata.total_pages);
    if !job.is_healable() {
        return Ok(());
    }
    if pages > MAX_PAGES_BY_WORKER {
        // A lease that expires immediately, so that `take_over` finds the job.
        healing::register(&finisher.store, id, &finisher.store.holder(), Duration::ZERO).await?;
        return Ok(());
    }
    publish_all(finisher, id).await
}

/// Publishes until no more late pages are registered, unless another worker does.
async fn publish_all(finisher: &Finisher, id: &JobId) -> Result<(), StepError> {
    let (holder, time) = (finisher.store.holder(), finisher.settings.page_visibility);
    let mut turn = healing::register(&finisher.store, id, &holder, time).await?;
    while let Some(ours) = turn {
        match publish(finisher, id).await {
            Ok(_) if is_being_read(&finisher.store, id).await? => {
                finisher.store.clock.sleep(VERSION_INTERVAL).await
            }
            Ok(_) => {}
            // Its lease expires, and `take_over` finds the job.
            Err(StepError::Fault(fault)) => return Err(fault.into()),
            Err(error) => {
                healing::finish(&finisher.store, ours, time).await?;
                return Err(error);
            }
        }
        turn = healing::finish(&finisher.store, ours, time).await?;
    }
    Ok(())
}

/// Whether a worker reads one of its pages now.
async fn is_being_read(store: &Store, id: &JobId) -> Result<bool, Fault> {
    let now = store.clock.now();
    let alive = |kept: &Versioned<Page>| kept.value.lease.as_ref().is_some_and(|lease| lease.is_valid(now));
    Ok(pages::all(store, id).await?.values().any(alive))
}

/// Completes the publications of processes that died; returns how many jobs that were.
pub async fn take_over(finisher: &Finisher) -> Result<usize, StepError> {
    let (mut healed, mut first_error) = (0, None);
    for id in healing::abandoned(&finisher.store, BATCH_SIZE).await? {
        let done = match jobs::find(&finisher.store, &id).await? {
            Some(kept) if kept.value.is_healable() => publish_all(finisher, &id).await,
            Some(_) => healing::delete(&finisher.store, &id).await.map_err(StepError::from),
            // Deleted while a late page was registered.
            None => healing::delete(&finisher.store, &id).await.map_err(StepError::from),
        };
        match done {
            Ok(()) => healed += 1,
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(healed), Err)
}

/// Runs [`take_over`] at intervals, forever.
pub async fn run(finisher: &Finisher) {
    loop {
        if let Err(error) = take_over(finisher).await {
            warn!(%error, "late pages not published yet");
        }
        finisher.store.clock.sleep(POLL_INTERVAL).await;
    }
}

async fn has_news(store: &Store, blobs: &dyn Blobs, job: &Job) -> Result<bool, StepError> {
    let Some(document) = results::read_document(blobs, job, None).await? else {
        return Ok(false);
    };
    let settled = pages::all(store, &job.id).await?;
    Ok(document.pages.iter().any(|page| {
        page.source != Source::AI
            && settled
                .get(&page.page)
                .and_then(|kept| kept.value.outcome.as_ref())
                .is_some_and(|outcome| outcome.is_ai())
    }))
}

/// Sends every page without AI text to the workers again, for at most `time`; returns their numbers. Pages
/// that were read and are in no version yet are published first.
pub async fn send(finisher: &Finisher, id: &JobId, time: Duration) -> Result<Vec<PageNumber>, StepError> {
    let job = publish(finisher, id).await?;
    if !job.is_healable() {
        let reason = format!("a job that is {} has no result to heal", job.state);
        return Err(StepError::Broken { code: StepCode::NothingToHeal, reason });
    }
    let Some(plan) = job.plan.as_ref().filter(|plan| plan.ai_pages > 0) else { return Ok(vec![]) };
    let settled = pages::all(&finisher.store, id).await?;
    let deadline = after(finisher.store.clock.now(), time);
    let mut outgoing = Vec::new();
    let mut sent = Vec::new();
    let images = late_images(finisher, &job).await?;
    for mut message in manifest(finisher.blobs.as_ref(), plan).await? {
        let page = settled.get(&message.page_id).map(|kept| &kept.value);
        if page.and_then(|page| page.outcome.as_ref()).is_some_and(|outcome| outcome.is_ai()) {
            continue;
        }
        message.redrive_count = page.map_or(0, |page| page.redrive_count) + 1;
        message.deadline = deadline;
        if message.image.is_none() {
            message.image = images.get(&message.page_id).cloned();
        }
        sent.push(message.page_id);
        let name = format!("{}:a{}", message.idempotency_key, message.redrive_count);
        outgoing.push(Outgoing {
            name,
            job: message.job_id.clone(),
            lane: message.priority,
            body: message.encode()?,
            delay: Duration::ZERO,
        });
    }
    credits::check(&finisher.store, &job, sent.len()).await?;
    finisher.queue.send(&outgoing).await?;
    Ok(sent)
}

/// Renders images that the deadline had left out. A document whose password was deleted can't be opened
/// again, and some processes have no parser: its pages are then sent with the text that there is.
async fn late_images(finisher: &Finisher, job: &Job) -> Result<HashMap<PageNumber, ImageRef>, StepError> {
    let ranges = job.survey.as_ref().map(|survey| survey.ranges.as_slice()).unwrap_or_default();
    let mut stored = prepare::all_stored_images(finisher.blobs.as_ref(), &job.id, ranges).await?;
    for (range, images) in ranges.iter().zip(&mut stored).filter(|(_, images)| images.is_none()) {
        match prepare::render_images(&finisher.preparer, job, range).await {
            Ok(()) => {}
            Err(error @ (StepError::Document(_) | StepError::Fault(Fault::ParserUnavailable { .. }))) => {
                warn!(job = %job.id, %error, "images not rendered")
            }
            Err(error) => return Err(error),
        }
        *images = prepare::stored_images(finisher.blobs.as_ref(), &job.id, range).await?;
    }
    Ok(stored.into_iter().flatten().flatten().collect())
}

#[async_trait]
impl LatePages for Finisher {
    async fn publish(&self, job: &JobId) -> Result<(), StepError> {
        publish_late_page(self, job).await
    }
}
