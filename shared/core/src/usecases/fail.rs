//! Ending a job that can't be processed: recorded, in the dead letters, its people told.

use super::{StepError, bury};
use crate::{
    app::App,
    domain::{
        ids::JobId,
        job::{Failure, Job, JobEvent},
    },
    store::{dead::Subject, jobs},
};

/// Notes the failure, then the dead letter. A crash in between is mended by the next call.
pub async fn fail(app: &App, id: &JobId, failure: Failure) -> Result<Job, StepError> {
    let kept = jobs::advance_and_forget(app, "finalize", id, |job| {
        if job.is_over() { vec![] } else { vec![JobEvent::Failed(failure.clone())] }
    })
    .await?;
    let job = kept.value;
    if let Some(failure) = &job.failure {
        let name = format!("{}-{}", job.id, job.redrives);
        let reason = format!("{}: {}", failure.code, failure.reason);
        bury::bury(
            app,
            &name,
            Subject::Job { job: id.clone() },
            &job.received,
            reason,
            job.redrives + 1,
            None,
        )
        .await?;
    }
    Ok(job)
}
