//! A person's word on a proposed plan.

use crate::{
    event::Actor,
    ids::JobId,
    job::{Illegal, Job, JobEvent, State, StepError, credits, jobs},
    plan::{Planner, propose},
    ports::flow::Flow,
};

pub enum Decision {
    Approve,
    Reject { reason: String },
}

/// Approves or rejects; an error when the job does not wait for it.
pub async fn decide(planner: &Planner, id: &JobId, by: &str, decision: Decision) -> Result<Job, StepError> {
    let job = jobs::load(&planner.store, id).await?.value;
    let decided = match (decision, &job.plan) {
        (Decision::Approve, Some(plan)) => {
            let events = |job: &Job, verdict: &JobEvent| unless_too_late(job, vec![verdict.clone()]);
            credits::approve(&planner.store, Actor::Operator, &job, plan, by, events).await?
        }
        (Decision::Approve, None) => {
            return Err(Illegal::Transition { from: job.state, to: State::Approved }.into());
        }
        (Decision::Reject { reason }, _) => {
            let event = JobEvent::Rejected { by: by.to_owned(), reason };
            jobs::advance(&planner.store, Actor::Operator, id, |job| {
                unless_too_late(job, vec![event.clone()])
            })
            .await?
            .value
        }
    };
    told(planner.flow.as_ref(), decided).await
}

/// Nobody reads pages of a job that is about to end, whatever is decided about it.
fn unless_too_late(job: &Job, events: Vec<JobEvent>) -> Vec<JobEvent> {
    if job.halt.is_some() { vec![] } else { events }
}

async fn told(flow: &dyn Flow, decided: Job) -> Result<Job, StepError> {
    if decided.halt.is_some() {
        return Err(Illegal::TooLate.into());
    }
    flow.wake(&decided.id).await?;
    Ok(decided)
}

/// Changes what is to be done, and so approves it.
pub async fn modify(
    planner: &Planner,
    id: &JobId,
    by: &str,
    change: impl Fn(&mut Job),
) -> Result<Job, StepError> {
    let mut wanted = jobs::load(&planner.store, id).await?.value;
    let version = wanted.plan.as_ref().map_or(1, |plan| plan.version) + 1;
    change(&mut wanted);
    let mut plan = propose::draw_up(planner, &wanted, version).await?;
    plan.approval = None;
    let modified = JobEvent::Modified { plan: plan.clone(), deadline: wanted.deadline, by: by.to_owned() };
    let decided = credits::approve(&planner.store, Actor::Operator, &wanted, &plan, by, |job, verdict| {
        unless_too_late(
            job,
            match verdict {
                JobEvent::Approved { .. } => vec![modified.clone(), verdict.clone()],
                rejected => vec![rejected.clone()],
            },
        )
    });
    told(planner.flow.as_ref(), decided.await?).await
}
