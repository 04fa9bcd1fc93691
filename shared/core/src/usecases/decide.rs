//! A person's word on a proposed plan.

use super::{StepError, plan};
use crate::{
    app::App,
    domain::{
        ids::JobId,
        job::{Job, JobEvent},
    },
    store::jobs,
};

pub enum Decision {
    Approve,
    Reject { reason: String },
}

/// Approves or rejects; an error when the job does not wait for it.
pub async fn decide(app: &App, job: &JobId, by: &str, decision: Decision) -> Result<Job, StepError> {
    let event = match decision {
        Decision::Approve => JobEvent::Approved { by: by.to_owned() },
        Decision::Reject { reason } => JobEvent::Rejected { by: by.to_owned(), reason },
    };
    let kept = jobs::advance(app, "operator", job, |_| vec![event.clone()]).await?;
    app.flow.wake(job).await?;
    Ok(kept.value)
}

/// Changes what is to be done, and so approves it.
pub async fn modify(app: &App, id: &JobId, by: &str, change: impl Fn(&mut Job)) -> Result<Job, StepError> {
    let mut wanted = jobs::load(app, id).await?.value;
    let version = wanted.plan.as_ref().map_or(1, |plan| plan.version) + 1;
    change(&mut wanted);
    let mut plan = plan::draw_up(app, &wanted, version).await?;
    plan.approval = None;
    let deadline = wanted.deadline;
    let kept = jobs::advance(app, "operator", id, |_| {
        vec![
            JobEvent::Modified { plan: plan.clone(), deadline, by: by.to_owned() },
            JobEvent::Approved { by: by.to_owned() },
        ]
    })
    .await?;
    app.flow.wake(id).await?;
    Ok(kept.value)
}
