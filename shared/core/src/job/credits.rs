//! Whether a tenant's credits allow what is asked.

use crate::job::StepError;
use crate::{
    app::App,
    billing::{account::Refused, accounts},
    ids::TenantId,
    job::{
        Job, JobEvent, Plan,
        jobs::{self, JobError},
    },
    ports::Fault,
};

/// Approves a plan and holds the credits that it may use; a job whose tenant has not enough is rejected.
/// `events` are what is written with the verdict, as the job is by then.
pub async fn approve(
    app: &App,
    source: &str,
    job: &Job,
    plan: &Plan,
    by: &str,
    events: impl Fn(&Job, &JobEvent) -> Vec<JobEvent>,
) -> Result<Job, StepError> {
    loop {
        let verdict = match afford(app, &job.received.tenant, plan.prepaid, plan.estimated_credits).await? {
            Ok(credits) => JobEvent::Approved { by: by.to_owned(), credits },
            Err(refused) => JobEvent::Rejected { by: "policy".into(), reason: refused.to_string() },
        };
        match jobs::advance(app, source, &job.id, |job| events(job, &verdict)).await {
            // Another job took them in between.
            Err(JobError::Credits(Refused::NotEnough { .. })) => continue,
            moved => return Ok(moved?.value),
        }
    }
}

/// What has to be held for so many pages: nothing where credits are unlimited.
async fn afford(
    app: &App,
    tenant: &TenantId,
    prepaid: bool,
    pages: u32,
) -> Result<Result<u32, Refused>, Fault> {
    if pages == 0 || !prepaid {
        return Ok(Ok(0));
    }
    let (needed, available) = (u64::from(pages), accounts::load(app, tenant).await?.value.available());
    Ok(if needed > available { Err(Refused::NotEnough { needed, available }) } else { Ok(pages) })
}

/// An error where a job that is over asks for more pages than its tenant can pay.
pub async fn check(app: &App, job: &Job, pages: usize) -> Result<(), StepError> {
    let (tenant, pages) = (&job.received.tenant, u32::try_from(pages).unwrap_or(u32::MAX));
    if let Err(refused) = afford(app, tenant, job.is_prepaid(), pages).await? {
        tracing::info!(job = %job.id, %tenant, pages, "not enough credits");
        return Err(refused.into());
    }
    Ok(())
}
