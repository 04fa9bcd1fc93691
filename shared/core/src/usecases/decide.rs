//! A person's word on a proposed plan.

use super::{StepError, credits, plan};
use crate::{
    app::App,
    domain::{
        ids::JobId,
        job::{Illegal, Job, JobEvent, State},
    },
    store::jobs,
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
            credits::approve(app, "operator", &job, plan, by, |_, verdict| vec![verdict.clone()]).await?
        }
        (Decision::Approve, None) => {
            return Err(Illegal::Transition { from: job.state, to: State::Approved }.into());
        }
        (Decision::Reject { reason }, _) => {
            let event = JobEvent::Rejected { by: by.to_owned(), reason };
            jobs::advance(app, "operator", id, |_| vec![event.clone()]).await?.value
        }
    };
    app.flow.wake(id).await?;
    Ok(decided)
}

/// Changes what is to be done, and so approves it.
pub async fn modify(app: &App, id: &JobId, by: &str, change: impl Fn(&mut Job)) -> Result<Job, StepError> {
    let mut wanted = jobs::load(app, id).await?.value;
    let version = wanted.plan.as_ref().map_or(1, |plan| plan.version) + 1;
    change(&mut wanted);
    let mut plan = plan::draw_up(app, &wanted, version).await?;
    plan.approval = None;
    let modified = JobEvent::Modified { plan: plan.clone(), deadline: wanted.deadline, by: by.to_owned() };
    let decided = credits::approve(app, "operator", &wanted, &plan, by, |_, verdict| match verdict {
        JobEvent::Approved { .. } => vec![modified.clone(), verdict.clone()],
        rejected => vec![rejected.clone()],
    });
    let decided = decided.await?;
    app.flow.wake(id).await?;
    Ok(decided)
}
