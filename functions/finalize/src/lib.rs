//! The end of a job, for the state machine; and the sweep, every minute, for whatever fell between.

use everypage_core::{
    app::App,
    domain::{
        ids::JobId,
        job::{Halt, Job},
        result::Cause,
    },
    store::jobs,
    usecases::{StepError, fail::fail, finalize::finalize, sweep::sweep},
};
use everypage_function::{FailedStep, at_work_on};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Instrument;

/// What the state machine, or the schedule, asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    Finalize { job_id: JobId, cause: Why },
    Fail { job_id: JobId, error: Caught },
    Sweep,
}

/// Why the race ended.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    Settled,
    Deadline,
    /// Cancelled, rejected or ended by somebody else: the job says which.
    Halted,
}

/// What a `Catch` of the state machine was told.
#[derive(Debug, Deserialize)]
pub struct Caught {
    #[serde(rename = "Error")]
    error: String,
    #[serde(rename = "Cause", default)]
    cause: String,
}

/// What became of the job.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub state: String,
    /// It goes on after all.
    pub open: bool,
}

pub async fn handle(app: &App, event: Value) -> Result<Ended, FailedStep> {
    let job = match serde_json::from_value(event).map_err(FailedStep::unknown_event)? {
        Step::Finalize { job_id, cause } => {
            let job = load(app, &job_id).await?;
            finalize(app, &job_id, cause_of(&job, cause)).instrument(at_work_on(&job)).await?
        }
        Step::Fail { job_id, error } => {
            let job = load(app, &job_id).await?;
            let failure = FailedStep::read(&error.error, &error.cause);
            fail(app, &job_id, failure).instrument(at_work_on(&job)).await?
        }
        Step::Sweep => {
            let swept = sweep(app).await;
            return Ok(Ended { state: format!("{swept:?}"), open: false });
        }
    };
    Ok(Ended { state: job.state.to_string(), open: !job.state.is_terminal() })
}

async fn load(app: &App, id: &JobId) -> Result<Job, StepError> {
    Ok(jobs::load(app, id).await?.value)
}

fn cause_of(job: &Job, why: Why) -> Cause {
    match why {
        Why::Settled => Cause::Settled,
        Why::Deadline => Cause::Deadline,
        Why::Halted => match job.halt {
            Some(Halt::Deadline) => Cause::Deadline,
            // A job that is over keeps its end, whatever is said here.
            Some(Halt::Cancelled) | None => Cause::Cancelled,
        },
    }
}
