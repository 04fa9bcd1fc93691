//! Whether a tenant's credits allow what is asked.

use crate::{
    billing::{account::Refused, accounts},
    event::Actor,
    events::Store,
    ids::TenantId,
    job::{
        Job, JobEvent, Plan, StepError,
        jobs::{self, JobError},
    },
    ports::Fault,
};

/// Approves a plan and holds the credits that it may use; a job whose tenant has not enough is rejected.
/// `events` are what is written with the verdict, as the job is by then.
pub async fn approve(
    store: &Store,
    actor: Actor,
    job: &Job,
    plan: &Plan,
    by: &str,
    events: impl Fn(&Job, &JobEvent) -> Vec<JobEvent>,
) -> Result<Job, StepError> {
    loop {
        let verdict = match afford(store, &job.received.tenant, plan.prepaid, plan.estimated_credits).await? {
            Ok(credits) => JobEvent::Approved { by: by.to_owned(), credits },
            Err(refused) => JobEvent::Rejected { by: "policy".into(), reason: refused.to_string() },
        };
        match jobs::advance(store, actor, &job.id, |job| events(job, &verdict)).await {
            // Another job took them in between.
            Err(JobError::Credits(Refused::NotEnough { .. })) => continue,
            moved => return Ok(moved?.value),
        }
    }
}

/// What has to be held for so many pages: nothing where credits are unlimited.
async fn afford(
    store: &Store,
    tenant: &TenantId,
    prepaid: bool,
    pages: u32,
) -> Result<Result<u32, Refused>, Fault> {
    if pages == 0 || !prepaid {
        return Ok(Ok(0));
    }
    let (needed, available) = (u64::from(pages), accounts::load(store, tenant).await?.value.available());
    Ok(if needed > available { Err(Refused::NotEnough { needed, available }) } else { Ok(pages) })
}

/// An error where a job that is over asks for more pages than its tenant can pay.
pub async fn check(store: &Store, job: &Job, pages: usize) -> Result<(), StepError> {
    let (tenant, pages) = (&job.received.tenant, u32::try_from(pages).unwrap_or(u32::MAX));
    if let Err(refused) = afford(store, tenant, job.is_prepaid(), pages).await? {
        tracing::info!(job = %job.id, %tenant, pages, "not enough credits");
        return Err(refused.into());
    }
    Ok(())
}
