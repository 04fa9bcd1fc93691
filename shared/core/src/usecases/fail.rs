//! Ending a job that can't be processed: recorded, in the dead letters, its people told.

use super::{
    StepError,
    bury::{Death, bury},
};
use crate::{
    app::App,
    domain::{
        ids::JobId,
        job::{Failure, Job, JobEvent},
    },
    store::jobs,
};

/// Notes the failure, then the dead letter. A crash in between is mended by the next call.
pub async fn fail(app: &App, id: &JobId, failure: Failure) -> Result<Job, StepError> {
    let kept = jobs::advance_and_forget(app, "finalize", id, |job| {
        if job.is_over() { vec![] } else { vec![JobEvent::Failed(failure.clone())] }
    })
    .await?;
    let job = kept.value;
    if let Some(failure) = &job.failure {
        let reason = format!("{}: {}", failure.code, failure.reason);
        bury(app, Death::of_job(&job, reason)).await?;
    }
    Ok(job)
}
