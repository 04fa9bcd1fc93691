//! Cancels a job at its caller's request. The pages read so far are still published.

use crate::{
    event::Actor,
    events::Store,
    ids::JobId,
    job::{
        Interrupts, Job, JobEvent,
        jobs::{self, JobError},
    },
    ports::flow::Flow,
};

/// Records the request to cancel and wakes the flow, which finalizes the job. A repeated request, or one
/// for a job that is over, changes nothing.
pub async fn cancel(
    store: &Store,
    flow: &dyn Flow,
    interrupts: &Interrupts,
    job: &JobId,
    by: &str,
) -> Result<Job, JobError> {
    let job_record = jobs::advance(store, Actor::Cancel, job, |job| {
        // After `deadline_reached` the job is being published: a cancel has no effect.
        if job.is_over() || job.halt.is_some() {
            vec![]
        } else {
            vec![JobEvent::CancelRequested { by: by.to_owned() }]
        }
    })
    .await?;
    interrupts.interrupt(job);
    flow.wake(job).await?;
    Ok(job_record.value)
}
