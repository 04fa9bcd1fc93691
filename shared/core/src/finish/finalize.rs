//! The end of a job: every page has text, the result is published, the trail is sealed.
//!
//! Running it twice, or from two processes concurrently, gives one result.

use std::time::Duration;

use tracing::info;

use crate::{
    digest::sha256_hex,
    event::Actor,
    events::Store,
    finish::{Finisher, heal, result::Cause, results},
    ids::{JobId, PageNumber},
    job::{Halt, Job, JobEvent, State, StepError, encode, jobs, telemetry as job_telemetry},
    keys::blob,
    plan::propose,
    ports::blobs::Blobs,
    prepare,
    read::pages,
    time::after,
};

/// Largest difference between the clocks of two processes.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Brings a job to its end from any state, and gives its seat to another. `cause` is why it ends now; a halt that
/// was recorded before (a cancel before the deadline) takes precedence.
pub async fn finalize(finisher: &Finisher, id: &JobId, cause: Cause) -> Result<Job, StepError> {
    let ended = end(finisher, id, cause).await?;
    if ended.state.is_terminal() {
        finisher.admission.leave(id).await;
    }
    Ok(ended)
}

async fn end(finisher: &Finisher, id: &JobId, cause: Cause) -> Result<Job, StepError> {
    let job = jobs::load(&finisher.store, id).await?.value;
    // Its time has not started.
    if job.is_waiting() && cause != Cause::Cancelled {
        return Ok(job);
    }
    let cause = match cause {
        // Workers whose clocks are ahead left the last pages to the deadline.
        Cause::Settled
            if is_near_deadline(&finisher.store, &job) && has_unsettled(&finisher.store, &job).await? =>
        {
            Cause::Deadline
        }
        cause => cause,
    };
    let job = halt(finisher, id, cause).await?;
    // The caller went by a deadline that was moved since.
    if cause == Cause::Deadline && job.halt.is_none() && !job.is_over() {
        return Ok(job);
    }
    job_telemetry::finalize(&finisher.store, &job).run(conclude(finisher, id, job)).await
}

async fn conclude(finisher: &Finisher, id: &JobId, mut job: Job) -> Result<Job, StepError> {
    loop {
        job = match job.state {
            State::Rejected | State::Cancelled | State::Failed | State::Audited => return Ok(job),
            State::Executed => audit(finisher, id).await?,
            State::Received | State::Acked if job.halt == Some(Halt::Cancelled) => {
                cancel_unprepared(finisher, &job).await?
            }
            State::Received | State::Acked => prepare::understand_late(&finisher.preparer, &job).await?,
            State::Understood => propose::propose(&finisher.planner, &job).await?,
            // Not approved in time: pages planned for AI keep our own reading.
            State::Proposed | State::Modified => {
                let by = if job.halt == Some(Halt::Cancelled) { "cancel" } else { "deadline" };
                let approve = |job: &Job| match job.state {
                    // No page goes to AI any more: no credits are reserved for them.
                    State::Proposed | State::Modified => {
                        vec![JobEvent::Approved { by: by.into(), credits: 0 }]
                    }
                    _ => vec![],
                };
                jobs::advance(&finisher.store, Actor::Finalize, id, approve).await?.value
            }
            State::Approved => publish(finisher, &job).await?,
        };
    }
}

fn is_near_deadline(store: &Store, job: &Job) -> bool {
    job.deadline <= after(store.clock.now(), MAX_CLOCK_SKEW)
}

/// Whether a page that was planned for AI is not settled.
async fn has_unsettled(store: &Store, job: &Job) -> Result<bool, StepError> {
    let planned = job.plan.as_ref().map_or(0, |plan| plan.ai_pages as usize);
    let all = pages::all(store, &job.id).await?;
    Ok(all.values().filter(|kept| kept.value.outcome.is_some()).count() < planned)
}

/// Halts the workers before anything is counted.
async fn halt(finisher: &Finisher, id: &JobId, cause: Cause) -> Result<Job, StepError> {
    let kept = jobs::advance(&finisher.store, Actor::Finalize, id, |job| match cause {
        Cause::Deadline if job.halt.is_none() && !job.is_over() && is_near_deadline(&finisher.store, job) => {
            vec![JobEvent::DeadlineReached {}]
        }
        Cause::Cancelled if job.halt.is_none() && !job.is_over() => {
            vec![JobEvent::CancelRequested { by: "caller".into() }]
        }
        _ => vec![],
    })
    .await?;
    if kept.value.halt.is_some() {
        finisher.interrupts.interrupt(id);
    }
    Ok(kept.value)
}

async fn publish(finisher: &Finisher, job: &Job) -> Result<Job, StepError> {
    let cause = match job.halt {
        None => Cause::Settled,
        Some(Halt::Deadline) => Cause::Deadline,
        Some(Halt::Cancelled) => Cause::Cancelled,
    };
    let version = 1;
    let published = results::publish(finisher, job, version, cause).await?;
    let kept = jobs::advance(&finisher.store, Actor::Finalize, &job.id, |now| match (now.state, now.halt) {
        (State::Approved, Some(Halt::Cancelled)) => {
            vec![JobEvent::Cancelled { result: Some(published.clone()) }]
        }
        (State::Approved, _) => vec![JobEvent::Executed(published.clone())],
        _ => vec![],
    })
    .await?;
    info!(job = %job.id, version, pages = published.metadata.total_pages, "result published");
    Ok(kept.value)
}

/// Ends a job that was cancelled before its document was read.
async fn cancel_unprepared(finisher: &Finisher, job: &Job) -> Result<Job, StepError> {
    // Text that was prepared by now is still published.
    if let Ok(understood) = prepare::understand_prepared(&finisher.preparer, job).await {
        return Ok(understood);
    }
    let kept =
        jobs::advance_and_delete_password(&finisher.store, Actor::Finalize, &job.id, |job| match job.state {
            State::Received | State::Acked => vec![JobEvent::Cancelled { result: None }],
            _ => vec![],
        })
        .await?;
    Ok(kept.value)
}

async fn audit(finisher: &Finisher, id: &JobId) -> Result<Job, StepError> {
    let digest = seal(&finisher.store, finisher.blobs.as_ref(), id).await?;
    let kept = jobs::advance(&finisher.store, Actor::Finalize, id, |job| match (&job.state, &job.result) {
        (State::Executed, Some(result)) => vec![JobEvent::Audited {
            credits: result.metadata.credits,
            cost_micro_usd: result.metadata.cost_micro_usd,
            pages_digest: digest.clone(),
        }],
        _ => vec![],
    })
    .await?;
    if kept.value.halt.is_none() {
        return Ok(kept.value);
    }
    // A worker may have settled its page after the result was assembled and before it was halted.
    heal::publish(finisher, id).await
}

/// The position of each page's trail: what a seal lists.
pub type SealedPages = Vec<(PageNumber, u64, String)>;

/// Stores the position of every page's trail and returns the digest, which goes into the job's trail: from
/// then on a change to a page's trail is detected.
pub async fn seal(store: &Store, blobs: &dyn Blobs, id: &JobId) -> Result<String, StepError> {
    let sealed: SealedPages = pages::all(store, id)
        .await?
        .into_values()
        .filter(|kept| kept.value.head.sequence > 0)
        .map(|kept| (kept.value.page, kept.value.head.sequence, kept.value.head.hash))
        .collect();
    let bytes = encode(&sealed)?;
    let digest = sha256_hex(&bytes);
    blobs.put_new(&blob::seal(id, &digest), bytes).await?;
    Ok(digest)
}
