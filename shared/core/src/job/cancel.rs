//! Stopping a job at its caller's wish. What is there by then is still published.

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

/// Asks for the end of a job; the flow then finalizes it. Asking again, or for a job that is over,
/// changes nothing.
pub async fn cancel(
    store: &Store,
    flow: &dyn Flow,
    interrupts: &Interrupts,
    job: &JobId,
    by: &str,
) -> Result<Job, JobError> {
    let kept = jobs::advance(store, Actor::Cancel, job, |job| {
        // A cancel after the deadline was noted comes too late: that job is being published.
        if job.is_over() || job.halt.is_some() {
            vec![]
        } else {
            vec![JobEvent::CancelRequested { by: by.to_owned() }]
        }
    })
    .await?;
    interrupts.interrupt(job);
    flow.wake(job).await?;
    Ok(kept.value)
}
