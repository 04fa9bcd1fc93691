//! Checks a tenant's credits before pages are read by AI.

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

/// Approves a plan and reserves the credits that it may use, or rejects the job if its tenant has too few.
///
/// `events` returns the events to store for the verdict, given the job as it is at that moment.
pub async fn approve(
    store: &Store,
    actor: Actor,
    job: &Job,
    plan: &Plan,
    by: &str,
    events: impl Fn(&Job, &JobEvent) -> Vec<JobEvent>,
) -> Result<Job, StepError> {
    loop {
        let verdict =
            match credits_to_reserve(store, &job.received.tenant, plan.prepaid, plan.estimated_credits)
                .await?
            {
                Ok(credits) => JobEvent::Approved { by: by.to_owned(), credits },
                Err(refused) => JobEvent::Rejected { by: "policy".into(), reason: refused.to_string() },
            };
        match jobs::advance(store, actor, &job.id, |job| events(job, &verdict)).await {
            // Another job reserved the credits in between.
            Err(JobError::Credits(Refused::NotEnough { .. })) => continue,
            advanced => return Ok(advanced?.value),
        }
    }
}

/// The credits to reserve for `pages` pages: 0 where credits are unlimited.
async fn credits_to_reserve(
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

/// Returns an error if the tenant can't pay for `pages` more pages of a job that is over.
pub async fn check(store: &Store, job: &Job, pages: usize) -> Result<(), StepError> {
    let (tenant, pages) = (&job.received.tenant, u32::try_from(pages).unwrap_or(u32::MAX));
    if let Err(refused) = credits_to_reserve(store, tenant, job.is_prepaid(), pages).await? {
        tracing::info!(job = %job.id, %tenant, pages, "not enough credits");
        return Err(refused.into());
    }
    Ok(())
}
