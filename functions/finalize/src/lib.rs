//! The finalize function: ends jobs for the state machine and notifies the webhooks of their tenants, and runs
//! the sweep every minute, which does what was left behind.

use everypage_core::{
    app::App,
    dead_letters::fail::fail,
    finish::{finalize::finalize, recognize, result::Cause},
    ids::JobId,
    job::{Halt, Job, StepError, jobs},
    notify::{deliver, relay},
    recover::sweep::sweep,
};
use everypage_function::{FailedStep, job_span};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{Instrument, warn};

/// The requests of the state machine and of the schedule.
#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    Finalize { job_id: JobId, cause: RaceEnd },
    Fail { job_id: JobId, error: CaughtError },
    Sweep,
}

/// The error with which the race ended.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum RaceEnd {
    PagesSettled,
    /// After that, OCR has recognized what it could of the pages that no AI has read.
    PagesRecognized,
    DeadlineReached,
    /// Cancelled, rejected or already ended; the job's state distinguishes them.
    JobHalted,
}

/// The error that a `Catch` of the state machine received.
#[derive(Debug, Deserialize)]
pub struct CaughtError {
    #[serde(rename = "Error")]
    error: String,
    #[serde(rename = "Cause", default)]
    cause: String,
}

/// The job's state after the request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub state: String,
}

pub async fn handle(app: &App, event: Value) -> Result<Ended, FailedStep> {
    let job = match serde_json::from_value(event).map_err(FailedStep::unknown_event)? {
        Step::Finalize { job_id, cause } => {
            let job = load(app, &job_id).await?;
            if matches!(cause, RaceEnd::PagesSettled) && recognize::is_needed(&app.finisher, &job).await? {
                return Err(FailedStep::needs_ocr(&job));
            }
            let ended = finalize(&app.finisher, &job_id, cause_of(&job, cause)).instrument(job_span(&job));
            let job = ended.await?;
            if !job.state.is_terminal() {
                return Err(FailedStep::still_open(&job));
            }
            job
        }
        Step::Fail { job_id, error } => {
            let job = load(app, &job_id).await?;
            let failure = FailedStep::read(&error.error, &error.cause);
            fail(&app.dead_letters, &job_id, failure).instrument(job_span(&job)).await?
        }
        Step::Sweep => {
            let swept = sweep(&app.recovery).await;
            return Ok(Ended { state: format!("{swept:?}") });
        }
    };
    announce(app, &job).instrument(job_span(&job)).await;
    Ok(Ended { state: job.state.to_string() })
}

/// Publishes the events of a job's end, then notifies the tenant's webhook: a receiver that hangs delays no
/// event. What fails here is left to the sweep; the job has ended all the same.
async fn announce(app: &App, job: &Job) {
    if let Err(fault) = relay::relay_own(&app.publisher).await {
        warn!(%fault, "events not published yet");
    }
    if let Err(fault) = deliver::notify_end(&app.publisher, job).await {
        warn!(%fault, "webhook not sent yet");
    }
}

async fn load(app: &App, id: &JobId) -> Result<Job, StepError> {
    Ok(jobs::load(&app.store, id).await?.value)
}

fn cause_of(job: &Job, end: RaceEnd) -> Cause {
    match end {
        RaceEnd::PagesSettled | RaceEnd::PagesRecognized => Cause::Settled,
        RaceEnd::DeadlineReached => Cause::Deadline,
        RaceEnd::JobHalted => match job.halt {
            Some(Halt::Deadline) => Cause::Deadline,
            // For a job that has ended already the cause is ignored.
            Some(Halt::Cancelled) | None => Cause::Cancelled,
        },
    }
}
