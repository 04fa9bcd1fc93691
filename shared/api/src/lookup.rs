//! Finding what a request names, for several routes.

use everypage_core::{
    ids::JobId,
    intake::find::{JobOrUpload, find},
    job::Job,
};

use crate::{
    Api, Caller,
    problem::{Code, Problem},
    shape,
};

/// Longer than any id.
const MAX_ID: usize = 64;

impl Api {
    /// Finds the caller's job or upload with this id. Those of other tenants do not exist for the caller.
    pub(crate) async fn named(&self, caller: &Caller, id: &str) -> Result<JobOrUpload, Problem> {
        let plain = id.len() <= MAX_ID && id.chars().all(|c| c.is_ascii_alphanumeric()) && !id.is_empty();
        if plain {
            let id = JobId::new(id.to_ascii_lowercase());
            if let Some(named) = find(&self.app.store, &caller.tenant, &id).await? {
                return Ok(named);
            }
        }
        Err(Problem::unknown_job(id))
    }

    /// Finds the caller's job with this id; fails while its document is not uploaded.
    pub(crate) async fn job(&self, caller: &Caller, id: &str) -> Result<Job, Problem> {
        match self.named(caller, id).await? {
            JobOrUpload::Job(job) => Ok(*job),
            JobOrUpload::Upload(upload) => {
                let detail = match &upload.failure {
                    Some(failure) => format!("the upload was refused: {}", failure.reason),
                    None => "upload the document first".to_owned(),
                };
                Err(Problem::new(Code::AwaitingUpload, detail))
            }
        }
    }

    /// The job as callers see it, with its current progress.
    pub(crate) async fn view(&self, job: Job) -> Result<shape::Job, Problem> {
        let progress = shape::progress(&self.app.store, &job).await?;
        let ahead = self.app.admission.ahead(&job).await?;
        Ok(shape::Job::from(job).at(progress).behind(ahead))
    }

    /// Makes a worker take the messages that were sent for a job that has ended.
    pub(crate) fn resume(&self, job: &JobId) {
        if let Some(workers) = &self.workers {
            workers.resume(job);
        }
    }
}
