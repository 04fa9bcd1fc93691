//! Steps of the state machine, from the accepted job to its plan. Each finds what was done before
//! and goes on from there.

use everypage_aws::Stack;
use everypage_core::{
    app::App,
    domain::{
        ids::{JobId, TaskToken},
        job::{Job, PageRange, State},
    },
    ports::flow::Flow,
    store::jobs,
    usecases::{StepError, plan, prepare},
};
use everypage_function::{FailedStep, at_work_on};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::Instrument;

#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Where the job stands.
    Look { job_id: JobId },
    /// Opens the document and splits it into ranges.
    Inspect { job_id: JobId },
    /// Stores MuPDF's text of one range.
    ReadText { job_id: JobId, range: PageRange },
    /// Stores the images of one range.
    Render { job_id: JobId, range: PageRange },
    /// Draws up the plan.
    Plan { job_id: JobId },
    /// Keeps the token by which a change from outside is told; `state` is what `Look` saw.
    Listen { job_id: JobId, token: TaskToken, state: State },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Looked<'a> {
    job_id: &'a JobId,
    deadline: String,
    state: State,
    open: bool,
    halted: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Planned<'a> {
    state: State,
    ai_pages: u32,
    manifest: &'a str,
    queue_url: &'a str,
}

impl Step {
    fn job_id(&self) -> &JobId {
        match self {
            Self::Look { job_id }
            | Self::Inspect { job_id }
            | Self::ReadText { job_id, .. }
            | Self::Render { job_id, .. }
            | Self::Plan { job_id }
            | Self::Listen { job_id, .. } => job_id,
        }
    }
}

pub async fn handle(stack: &Stack, step: Step) -> Result<Value, FailedStep> {
    let job = load(&stack.app, step.job_id()).await?;
    Ok(take(stack, step, &job).instrument(at_work_on(&job)).await?)
}

async fn take(stack: &Stack, step: Step, job: &Job) -> Result<Value, StepError> {
    let app = &stack.app;
    match step {
        Step::Look { .. } => return Ok(look(job)),
        Step::Inspect { .. } => return Ok(json!({ "ranges": prepare::inspect(app, job).await? })),
        Step::ReadText { range, .. } => prepare::read_range(app, job, &range).await?,
        Step::Render { range, .. } => prepare::render_range(app, job, &range).await?,
        Step::Plan { .. } => return Ok(planned(stack, &plan(app, job).await?)),
        Step::Listen { token, state, .. } => {
            stack.flow.store_token(&job.id, &token, state).await?;
            // Written first, looked second: whoever changed the job before found no token to answer.
            if was_changed(&load(app, &job.id).await?, state) {
                stack.flow.settle(&token).await?;
            }
        }
    }
    Ok(json!({}))
}

async fn load(app: &App, id: &JobId) -> Result<Job, StepError> {
    Ok(jobs::load(app, id).await?.value)
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn look(job: &Job) -> Value {
    json!(Looked {
        job_id: &job.id,
        // Step Functions leaves out parts of a second: it ends the race up to a second before the deadline,
        // and never after it.
        deadline: whole_seconds(job.deadline).to_string(),
        state: job.state,
        open: !job.state.is_terminal(),
        halted: job.halt.is_some(),
    })
}

/// From the prepared document to its plan; a job that is further already stays where it is.
async fn plan(app: &App, job: &Job) -> Result<Job, StepError> {
    let job = match job.state {
        State::Received | State::Acked => prepare::understand(app, job).await?,
        _ => job.clone(),
    };
    plan::propose(app, &job).await
}

fn planned(stack: &Stack, job: &Job) -> Value {
    let plan = job.plan.as_ref();
    json!(Planned {
        state: job.state,
        ai_pages: plan.map_or(0, |plan| plan.ai_pages),
        manifest: plan.map_or("", |plan| &plan.manifest),
        queue_url: stack.queue.url_of(job.priority()),
    })
}

/// Did somebody change the job since the flow looked at it? What the flow does to it by itself is no
/// such change.
fn was_changed(job: &Job, looked: State) -> bool {
    let decided = job.plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.version > 1)
        && job.state != State::Proposed
        && job.state != looked;
    job.halt.is_some() || job.state.is_terminal() || decided
}
