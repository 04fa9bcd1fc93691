//! Decisions of a person on a proposed plan: approve, reject, modify.

use crate::{
    billing::accounts,
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

/// Approves or rejects a plan. An error if the job does not wait for approval or is halted.
pub async fn decide(planner: &Planner, id: &JobId, by: &str, decision: Decision) -> Result<Job, StepError> {
    let job = jobs::load(&planner.store, id).await?.value;
    let decided = match (decision, &job.plan) {
        (Decision::Approve, Some(plan)) => {
            accounts::welcome(&planner.store, &planner.tenants, &job.received.tenant).await?;
            let events = |job: &Job, verdict: &JobEvent| unless_halted(job, vec![verdict.clone()]);
            credits::approve(&planner.store, Actor::Operator, &job, plan, by, events).await?
        }
        (Decision::Approve, None) => {
            return Err(Illegal::Transition { from: job.state, to: State::Approved }.into());
        }
        (Decision::Reject { reason }, _) => {
            let event = JobEvent::Rejected { by: by.to_owned(), reason };
            jobs::advance(&planner.store, Actor::Operator, id, |job| unless_halted(job, vec![event.clone()]))
                .await?
                .value
        }
    };
    wake_flow(planner.flow.as_ref(), decided).await
}

/// A halted job is about to be published: no decision changes it.
fn unless_halted(job: &Job, events: Vec<JobEvent>) -> Vec<JobEvent> {
    if job.halt.is_some() { vec![] } else { events }
}

/// Wakes the flow of a decided job. An error if the job was halted, so that the decision was not stored.
async fn wake_flow(flow: &dyn Flow, decided: Job) -> Result<Job, StepError> {
    if decided.halt.is_some() {
        return Err(Illegal::TooLate.into());
    }
    flow.wake(&decided.id).await?;
    Ok(decided)
}

/// Replaces the plan by one for the job as `change` leaves it, and approves that.
pub async fn modify(
    planner: &Planner,
    id: &JobId,
    by: &str,
    change: impl Fn(&mut Job),
) -> Result<Job, StepError> {
    let mut modified = jobs::load(&planner.store, id).await?.value;
    accounts::welcome(&planner.store, &planner.tenants, &modified.received.tenant).await?;
    let version = modified.plan.as_ref().map_or(1, |plan| plan.version) + 1;
    let before = modified.received.options.calls();
    change(&mut modified);
    let calls = Some(modified.received.options.calls()).filter(|calls| *calls != before);
    let mut plan = propose::build_plan(planner, &modified, version).await?;
    plan.approval = None;
    let event =
        JobEvent::Modified { plan: plan.clone(), deadline: modified.deadline, by: by.to_owned(), calls };
    let decided = credits::approve(&planner.store, Actor::Operator, &modified, &plan, by, |job, verdict| {
        unless_halted(
            job,
            match verdict {
                JobEvent::Approved { .. } => vec![event.clone(), verdict.clone()],
                rejected => vec![rejected.clone()],
            },
        )
    });
    wake_flow(planner.flow.as_ref(), decided.await?).await
}
