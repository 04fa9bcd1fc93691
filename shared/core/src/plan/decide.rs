//! A person's word on a proposed plan.

use crate::{
    app::App,
    ids::JobId,
    job::{Illegal, Job, JobEvent, State, jobs},
};
use crate::{
    job::{StepError, credits},
    plan::propose,
};

pub enum Decision {
    Approve,
    Reject { reason: String },
}

/// Approves or rejects; an error when the job does not wait for it.
pub async fn decide(app: &App, id: &JobId, by: &str, decision: Decision) -> Result<Job, StepError> {
    let job = jobs::load(app, id).await?.value;
    let decided = match (decision, &job.plan) {
        (Decision::Approve, Some(plan)) => {
            let events = |job: &Job, verdict: &JobEvent| unless_too_late(job, vec![verdict.clone()]);
            credits::approve(app, "operator", &job, plan, by, events).await?
        }
        (Decision::Approve, None) => {
            return Err(Illegal::Transition { from: job.state, to: State::Approved }.into());
        }
        (Decision::Reject { reason }, _) => {
            let event = JobEvent::Rejected { by: by.to_owned(), reason };
            jobs::advance(app, "operator", id, |job| unless_too_late(job, vec![event.clone()])).await?.value
        }
    };
    told(app, decided).await
}

/// Nobody reads pages of a job that is about to end, whatever is decided about it.
fn unless_too_late(job: &Job, events: Vec<JobEvent>) -> Vec<JobEvent> {
    if job.halt.is_some() { vec![] } else { events }
}

async fn told(app: &App, decided: Job) -> Result<Job, StepError> {
    if decided.halt.is_some() {
        return Err(Illegal::TooLate.into());
    }
    app.flow.wake(&decided.id).await?;
    Ok(decided)
}

/// Changes what is to be done, and so approves it.
pub async fn modify(app: &App, id: &JobId, by: &str, change: impl Fn(&mut Job)) -> Result<Job, StepError> {
    let mut wanted = jobs::load(app, id).await?.value;
    let version = wanted.plan.as_ref().map_or(1, |plan| plan.version) + 1;
    change(&mut wanted);
    let mut plan = propose::draw_up(app, &wanted, version).await?;
    plan.approval = None;
    let modified = JobEvent::Modified { plan: plan.clone(), deadline: wanted.deadline, by: by.to_owned() };
    let decided = credits::approve(app, "operator", &wanted, &plan, by, |job, verdict| {
        unless_too_late(
            job,
            match verdict {
                JobEvent::Approved { .. } => vec![modified.clone(), verdict.clone()],
                rejected => vec![rejected.clone()],
            },
        )
    });
    told(app, decided.await?).await
}
