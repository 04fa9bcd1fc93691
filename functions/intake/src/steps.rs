//! Steps of the state machine, from the accepted job to its plan. Each can be repeated: it finds the
//! work already done and continues from there.

use everypage_aws::Stack;
use everypage_core::{
    app::App,
    ids::{JobId, TaskToken},
    job::{Job, PageRange, State, StepError, jobs},
    plan::propose,
    ports::flow::Flow,
    prepare,
};
use everypage_function::{FailedStep, job_span};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::Instrument;

#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Returns the job's state and deadline.
    Load { job_id: JobId },
    /// Opens the document and splits it into ranges.
    Inspect { job_id: JobId },
    /// Stores MuPDF's text of one range.
    ReadText { job_id: JobId, range: PageRange },
    /// Stores the images of one range.
    Render { job_id: JobId, range: PageRange },
    /// Makes the plan.
    Plan { job_id: JobId },
    /// Stores the token that a change of the job completes; `state` is the one that `Load` returned.
    Listen { job_id: JobId, token: TaskToken, state: State },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Loaded<'a> {
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
            Self::Load { job_id }
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
    Ok(run(stack, step, &job).instrument(job_span(&job)).await?)
}

async fn run(stack: &Stack, step: Step, job: &Job) -> Result<Value, StepError> {
    let app = &stack.app;
    match step {
        Step::Load { .. } => return Ok(loaded(job)),
        Step::Inspect { .. } => return Ok(json!({ "ranges": prepare::inspect(&app.preparer, job).await? })),
        Step::ReadText { range, .. } => prepare::read_range(&app.preparer, job, &range).await?,
        Step::Render { range, .. } => prepare::render_range(&app.preparer, job, &range).await?,
        Step::Plan { .. } => return Ok(planned(stack, &plan(app, job).await?)),
        Step::Listen { token, state, .. } => {
            stack.flow.store_token(&job.id, &token, state).await?;
            // Written first, read second: a change before the write found no token to complete.
            if was_changed(&load(app, &job.id).await?, state) {
                stack.flow.settle(&token).await?;
            }
        }
    }
    Ok(json!({}))
}

async fn load(app: &App, id: &JobId) -> Result<Job, StepError> {
    Ok(jobs::load(&app.store, id).await?.value)
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn loaded(job: &Job) -> Value {
    json!(Loaded {
        job_id: &job.id,
        // Step Functions drops fractions of a second: it ends the race up to a second before the deadline,
        // and never after it.
        deadline: whole_seconds(job.deadline).to_string(),
        state: job.state,
        open: !job.state.is_terminal(),
        halted: job.halt.is_some(),
    })
}

/// Makes the plan of a prepared document; a job in a later state is left unchanged.
async fn plan(app: &App, job: &Job) -> Result<Job, StepError> {
    let job = match job.state {
        State::Received | State::Acked => prepare::understand(&app.preparer, job).await?,
        _ => job.clone(),
    };
    propose::propose(&app.planner, &job).await
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

/// Whether a person changed the job since the flow loaded it. Changes by the flow itself do not count.
fn was_changed(job: &Job, loaded: State) -> bool {
    let decided = job.plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.version > 1)
        && job.state != State::Proposed
        && job.state != loaded;
    job.halt.is_some() || job.state.is_terminal() || decided
}
