//! Steps of the state machine, from the accepted job to its plan. Each can be repeated: it finds the
//! work already done and continues from there.

use everypage_aws::{Stack, wait_until};
use everypage_core::{
    app::App,
    finish::recognize,
    ids::{JobId, PageNumber, TaskToken},
    job::{Job, PageRange, State, StepCode, StepError, jobs},
    plan::propose,
    ports::flow::Flow,
    prepare,
    read::{
        countdowns,
        send::{self, RangeGroup},
    },
};
use everypage_function::{FailedStep, job_span};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{Instrument, warn};

#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Returns the job's state and deadline.
    Load { job_id: JobId },
    /// Opens the document and splits it into ranges. A document of one range is prepared and planned.
    Prepare { job_id: JobId },
    /// Stores MuPDF's text of one range.
    ReadText { job_id: JobId, range: PageRange },
    /// Stores the images of one range.
    Render { job_id: JobId, range: PageRange },
    /// Makes the plan.
    Plan { job_id: JobId },
    /// Lists the pages that are to be recognized by OCR now, in groups.
    OcrPlan { job_id: JobId },
    /// Recognizes the pages of a group.
    Recognize { job_id: JobId, pages: Vec<PageNumber> },
    /// Opens a document that was not opened before its deadline, and reads its text.
    ReadLate { job_id: JobId },
    /// Sends the pages of a group of ranges to the workers.
    Send { job_id: JobId, group: RangeGroup },
    /// Stores the token that the last page or a change of the job answers; `state` is the one that the
    /// execution started with or that `Load` returned.
    Listen { job_id: JobId, token: TaskToken, state: State },
    /// Everything for a document of one range, from opening it to sending its pages; then the token is answered as
    /// that of `Listen`. A larger document fails the token.
    Begin { job_id: JobId, token: TaskToken, state: State },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Loaded<'a> {
    job_id: &'a JobId,
    deadline: String,
    ocr_at: String,
    state: State,
    open: bool,
    halted: bool,
}

/// The next state of the execution after `Prepare` or `Plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Prepares the ranges of a larger document one by one, concurrently.
    ReadTexts,
    SendPages,
    AwaitDecision,
    /// No page goes to AI, or the job has ended.
    Finalize,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Prepared {
    next: Next,
    /// For [`Next::ReadTexts`].
    ranges: Vec<PageRange>,
    /// For [`Next::SendPages`].
    groups: Vec<RangeGroup>,
}

impl Step {
    fn job_id(&self) -> &JobId {
        match self {
            Self::Load { job_id }
            | Self::Prepare { job_id }
            | Self::ReadText { job_id, .. }
            | Self::Render { job_id, .. }
            | Self::Plan { job_id }
            | Self::OcrPlan { job_id }
            | Self::Recognize { job_id, .. }
            | Self::ReadLate { job_id }
            | Self::Send { job_id, .. }
            | Self::Listen { job_id, .. }
            | Self::Begin { job_id, .. } => job_id,
        }
    }
}

pub async fn handle(stack: &Stack, step: Step) -> Result<Value, FailedStep> {
    let job = load(&stack.app, step.job_id()).await?;
    Ok(Box::pin(run(stack, step, &job)).instrument(job_span(&job)).await?)
}

async fn run(stack: &Stack, step: Step, job: &Job) -> Result<Value, StepError> {
    let app = &stack.app;
    match step {
        Step::Load { .. } => return Ok(loaded(job)),
        Step::Prepare { .. } => return Ok(json!(prepare_job(app, job).await?)),
        Step::ReadText { range, .. } => prepare::read_range(&app.preparer, job, &range).await?,
        Step::Render { range, .. } => prepare::render_range(&app.preparer, job, &range).await?,
        Step::Plan { .. } => return Ok(json!(plan(app, job).await?)),
        Step::OcrPlan { .. } => {
            return Ok(json!({ "groups": recognize::groups(&app.finisher, job).await? }));
        }
        Step::Recognize { pages, .. } => recognize::recognize_group(&app.finisher, job, &pages).await?,
        Step::ReadLate { .. } => {
            if matches!(job.state, State::Received | State::Acked) {
                prepare::understand_late(&app.preparer, job).await?;
            }
        }
        Step::Send { group, .. } => send::send(&app.reader, job, group).await?,
        Step::Listen { token, state, .. } => {
            stack.flow.store_token(&job.id, &token, state).await?;
            answer_early(stack, job, state).await?;
        }
        Step::Begin { token, state, .. } => {
            stack.flow.store_token(&job.id, &token, state).await?;
            begin(stack, job, &token, state).await?;
        }
    }
    Ok(json!({}))
}

/// Prepares a document of one range and sends its pages. Many ranges are left to steps of their own, also where
/// they were prepared before.
async fn begin(stack: &Stack, job: &Job, token: &TaskToken, state: State) -> Result<(), StepError> {
    let app = &stack.app;
    let prepared = prepare_job(app, job).await?;
    match prepared.next {
        Next::ReadTexts => return Ok(stack.flow.leave_to_ranges(token).await?),
        Next::SendPages if prepared.groups.len() > 1 => {
            return Ok(stack.flow.leave_to_ranges(token).await?);
        }
        Next::SendPages => {
            let planned = load(app, &job.id).await?;
            for group in prepared.groups {
                send::send(&app.reader, &planned, group).await?;
            }
        }
        Next::AwaitDecision => {}
        Next::Finalize => return Ok(stack.flow.pages_settled(&job.id).await?),
    }
    answer_early(stack, job, state).await
}

/// Answers the stored token if what it waits for has happened. It was written first, and this is read second: a
/// change before the write found no token to answer.
async fn answer_early(stack: &Stack, job: &Job, state: State) -> Result<(), StepError> {
    let app = &stack.app;
    let job = load(app, &job.id).await?;
    if was_changed(&job, state) {
        stack.flow.wake(&job.id).await?;
    } else if countdowns::is_complete(&app.store, &job).await? {
        stack.flow.pages_settled(&job.id).await?;
    }
    Ok(())
}

async fn load(app: &App, id: &JobId) -> Result<Job, StepError> {
    Ok(jobs::load(&app.store, id).await?.value)
}

fn loaded(job: &Job) -> Value {
    json!(Loaded {
        job_id: &job.id,
        deadline: wait_until(job.deadline),
        ocr_at: wait_until(job.ocr_at()),
        state: job.state,
        open: !job.state.is_terminal(),
        halted: job.halt.is_some(),
    })
}

/// Opens the document. Most documents have one range: their text, images and plan are made here too, because
/// each further step costs more than it does.
async fn prepare_job(app: &App, job: &Job) -> Result<Prepared, StepError> {
    if matches!(job.state, State::Received | State::Acked) {
        let ranges = prepare::inspect(&app.preparer, job).await?;
        let [range] = ranges.as_slice() else {
            return Ok(Prepared { next: Next::ReadTexts, ranges, groups: vec![] });
        };
        prepare::read_range(&app.preparer, job, range).await?;
        // Every page has its text by now: an image that can't be rendered does not fail the job.
        if let Err(error) = prepare::render_range(&app.preparer, job, range).await {
            warn!(%error, "images not rendered");
        }
    }
    plan(app, job).await
}

/// Reads what is missing of the text, as when the function was killed while it rendered images.
async fn understand(app: &App, job: &Job) -> Result<Job, StepError> {
    match prepare::understand(&app.preparer, job).await {
        Err(StepError::Broken { code: StepCode::NotPrepared, .. }) => {}
        understood => return understood,
    }
    for range in prepare::inspect(&app.preparer, job).await? {
        prepare::read_range(&app.preparer, job, &range).await?;
    }
    prepare::understand(&app.preparer, job).await
}

/// Makes the plan of a document whose text is read; a job in a later state is left unchanged.
async fn plan(app: &App, job: &Job) -> Result<Prepared, StepError> {
    let job = match job.state {
        State::Received | State::Acked => understand(app, job).await?,
        _ => job.clone(),
    };
    let job = propose::propose(&app.planner, &job).await?;
    let mut groups = vec![];
    let next = match job.state {
        State::Approved => {
            groups = send::start(&app.reader, &job).await?;
            if groups.is_empty() { Next::Finalize } else { Next::SendPages }
        }
        State::Proposed | State::Modified => Next::AwaitDecision,
        _ => Next::Finalize,
    };
    Ok(Prepared { next, ranges: vec![], groups })
}

/// Whether a person changed the job since the flow loaded it. Changes by the flow itself do not count.
fn was_changed(job: &Job, loaded: State) -> bool {
    let decided = job.plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.version > 1)
        && job.state != State::Proposed
        && job.state != loaded;
    job.halt.is_some() || job.state.is_terminal() || decided
}
