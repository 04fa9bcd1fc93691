//! Better text for a published result: pages that were read late replace their fallback in a new
//! version. A version that was published never changes.

use std::{collections::HashMap, time::Duration};

use tracing::warn;

use crate::{
    app::App,
    finish::{healing, result::Cause},
    ids::{JobId, PageNumber},
    job::{Job, JobEvent, State, jobs, message::ImageRef},
    ports::{Fault, queue::Outgoing},
    read::{
        outcome::Source,
        pages::{self, Page},
    },
    records::Kept,
    time::after,
};
use crate::{
    finish::{finalize::seal, results},
    job::{StepError, credits},
    plan::propose::manifest,
    prepare,
};

/// Pages that are read within this of a version come together in the next.
const BETWEEN_VERSIONS: Duration = Duration::from_secs(2);
/// Pages of a result that a worker makes. More take more memory than it has on AWS, and its end there
/// would take the pages along that it reads meanwhile.
const MOST_BY_WORKERS: u32 = 2000;
/// How often publishers that died are looked for, and how many jobs at most are gone on with then.
const LOOK: Duration = Duration::from_secs(15);
const AT_ONCE: usize = 100;

/// Publishes a new version if pages were read since the last one; answers with the job.
pub async fn publish(app: &App, id: &JobId) -> Result<Job, StepError> {
    loop {
        let job = jobs::load(app, id).await?.value;
        if !heals(&job) || !has_news(app, &job).await? {
            return Ok(job);
        }
        let Some(latest) = &job.result else { return Ok(job) };
        let version = latest.version + 1;
        let cause = if latest.metadata.timeout_occurred { Cause::Deadline } else { Cause::Settled };
        let published = results::publish(app, &job, version, cause).await?;
        let pages_digest = seal(app, id).await?;
        jobs::advance(app, "finalize", id, |now| {
            let next = now.result.as_ref().is_some_and(|result| result.version + 1 == version);
            if heals(now) && next {
                vec![JobEvent::Healed { result: published.clone(), pages_digest: pages_digest.clone() }]
            } else {
                vec![]
            }
        })
        .await?;
    }
}

/// Brings a page that was stored after the result was published into a new version: by the caller, or
/// by whoever publishes already, so that many pages make few versions. A large result is left to those
/// who go on for the dead.
pub async fn bring_in(app: &App, id: &JobId) -> Result<(), StepError> {
    let job = jobs::load(app, id).await?.value;
    let pages = job.result.as_ref().map_or(0, |result| result.metadata.total_pages);
    if !heals(&job) {
        return Ok(());
    }
    if pages > MOST_BY_WORKERS {
        // A turn that is over as it begins.
        healing::tell(app, id, &app.holder(), Duration::ZERO).await?;
        return Ok(());
    }
    publish_all(app, id).await
}

/// Publishes until nothing is told any more, unless somebody else does.
async fn publish_all(app: &App, id: &JobId) -> Result<(), StepError> {
    let (holder, time) = (app.holder(), app.settings.page_visibility);
    let mut turn = healing::tell(app, id, &holder, time).await?;
    while let Some(ours) = turn {
        match publish(app, id).await {
            Ok(_) if is_being_read(app, id).await? => app.clock.sleep(BETWEEN_VERSIONS).await,
            Ok(_) => {}
            // Its turn runs out, and it is found among the abandoned.
            Err(StepError::Fault(fault)) => return Err(fault.into()),
            Err(error) => {
                healing::finish(app, ours, time).await?;
                return Err(error);
            }
        }
        turn = healing::finish(app, ours, time).await?;
    }
    Ok(())
}

/// Does somebody read a page of it just now?
async fn is_being_read(app: &App, id: &JobId) -> Result<bool, Fault> {
    let now = app.clock.now();
    let alive = |kept: &Kept<Page>| kept.value.lease.as_ref().is_some_and(|lease| lease.alive(now));
    Ok(pages::all(app, id).await?.values().any(alive))
}

/// Goes on with what publishers left who died; answers how many jobs that were.
pub async fn take_over(app: &App) -> Result<usize, StepError> {
    let (mut healed, mut first_error) = (0, None);
    for id in healing::abandoned(app, AT_ONCE).await? {
        let done = match jobs::find(app, &id).await? {
            Some(kept) if heals(&kept.value) => publish_all(app, &id).await,
            Some(_) => healing::forget(app, &id).await.map_err(StepError::from),
            // Deleted while somebody told of a page of it.
            None => healing::forget(app, &id).await.map_err(StepError::from),
        };
        match done {
            Ok(()) => healed += 1,
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(healed), Err)
}

/// The same again and again, for ever.
pub async fn run(app: &App) {
    loop {
        if let Err(error) = take_over(app).await {
            warn!(%error, "late pages not published yet");
        }
        app.clock.sleep(LOOK).await;
    }
}

/// Can late pages still come into its result? A cancelled job stays as its caller left it.
pub fn heals(job: &Job) -> bool {
    matches!(job.state, State::Executed | State::Audited) && job.result.is_some()
}

async fn has_news(app: &App, job: &Job) -> Result<bool, StepError> {
    let Some(document) = results::read_document(app, job, None).await? else {
        return Ok(false);
    };
    let settled = pages::all(app, &job.id).await?;
    Ok(document.pages.iter().any(|page| {
        page.source != Source::Ai
            && settled
                .get(&page.page)
                .and_then(|kept| kept.value.outcome.as_ref())
                .is_some_and(|outcome| outcome.is_ai())
    }))
}

/// Sends every page whose AI text is missing to the workers once more; answers which, and until
/// when they may work on them. What was read and is in no version yet is published first.
pub async fn send(app: &App, id: &JobId, time: Duration) -> Result<Vec<PageNumber>, StepError> {
    let job = publish(app, id).await?;
    if !heals(&job) {
        let reason = format!("a job that is {} has no result to heal", job.state);
        return Err(StepError::Broken { code: "nothing_to_heal", reason });
    }
    let Some(plan) = job.plan.as_ref().filter(|plan| plan.ai_pages > 0) else { return Ok(vec![]) };
    let settled = pages::all(app, id).await?;
    let deadline = after(app.clock.now(), time);
    let mut outgoing = Vec::new();
    let mut sent = Vec::new();
    let images = late_images(app, &job).await?;
    for mut message in manifest(app, plan).await? {
        let page = settled.get(&message.page_id).map(|kept| &kept.value);
        if page.and_then(|page| page.outcome.as_ref()).is_some_and(|outcome| outcome.is_ai()) {
            continue;
        }
        message.attempt = page.map_or(0, |page| page.attempt) + 1;
        message.deadline = deadline;
        if message.image.is_none() {
            message.image = images.get(&message.page_id).cloned();
        }
        message.task_token = None;
        sent.push(message.page_id);
        let name = format!("{}:a{}", message.idempotency_key, message.attempt);
        outgoing.push(Outgoing {
            name,
            job: message.job_id.clone(),
            lane: message.priority,
            body: message.encode(),
        });
    }
    credits::check(app, &job, sent.len()).await?;
    app.queue.send(&outgoing).await?;
    Ok(sent)
}

/// Images that the deadline had left unmade. A document whose password is gone can't be opened for
/// them any more, and some who heal can't open any: its pages are then sent with what text there is.
async fn late_images(app: &App, job: &Job) -> Result<HashMap<PageNumber, ImageRef>, StepError> {
    let ranges = job.survey.as_ref().map(|survey| survey.ranges.as_slice()).unwrap_or_default();
    let mut stored = prepare::all_stored_images(app, &job.id, ranges).await?;
    for (range, images) in ranges.iter().zip(&mut stored).filter(|(_, images)| images.is_none()) {
        match prepare::make_images(app, job, range).await {
            Ok(()) => {}
            Err(
                error
                @ (StepError::Document(_) | StepError::Fault(Fault::Unreachable { service: "pdf", .. })),
            ) => warn!(job = %job.id, %error, "images not made"),
            Err(error) => return Err(error),
        }
        *images = prepare::stored_images(app, &job.id, range).await?;
    }
    Ok(stored.into_iter().flatten().flatten().collect())
}
