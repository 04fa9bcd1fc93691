//! Stopping a job at its caller's wish. What is there by then is still published.

use crate::{
    app::App,
    ids::JobId,
    job::{
        Job, JobEvent,
        jobs::{self, JobError},
    },
};

/// Asks for the end of a job; the flow then finalizes it. Asking again, or for a job that is over,
/// changes nothing.
pub async fn cancel(app: &App, job: &JobId, by: &str) -> Result<Job, JobError> {
    let kept = jobs::advance(app, "cancel", job, |job| {
        // A cancel after the deadline was noted comes too late: that job is being published.
        if job.is_over() || job.halt.is_some() {
            vec![]
        } else {
            vec![JobEvent::CancelRequested { by: by.to_owned() }]
        }
    })
    .await?;
    app.interrupt(job);
    app.flow.wake(job).await?;
    Ok(kept.value)
}
