//! What several routes do with a job's id and their answers.

use everypage_core::{
    domain::{ids::JobId, job::Job},
    usecases::upload::{self, Named},
};

use crate::{
    Api, Caller,
    problem::{self, Problem},
    shape,
};

/// Longer than any id.
const LONGEST_ID: usize = 64;

impl Api {
    /// What the caller means by an id. What is another tenant's does not exist.
    pub(crate) async fn named(&self, caller: &Caller, id: &str) -> Result<Named, Problem> {
        let plain = id.len() <= LONGEST_ID && id.chars().all(|c| c.is_ascii_alphanumeric()) && !id.is_empty();
        if plain {
            let id = JobId::new(id.to_ascii_lowercase());
            if let Some(named) = upload::find(&self.app, &caller.tenant, &id).await? {
                return Ok(named);
            }
        }
        Err(Problem::unknown_job(id))
    }

    /// The same where it takes a document that has come.
    pub(crate) async fn job(&self, caller: &Caller, id: &str) -> Result<Job, Problem> {
        match self.named(caller, id).await? {
            Named::Job(job) => Ok(*job),
            Named::Upload(upload) => {
                let why = match &upload.failure {
                    Some(failure) => format!("what was uploaded became no job: {}", failure.reason),
                    None => "upload the document first".to_owned(),
                };
                Err(Problem::new(&problem::AWAITING_UPLOAD, why))
            }
        }
    }

    /// A job as it is now, with how far it has come.
    pub(crate) async fn view(&self, job: Job) -> Result<shape::Job, Problem> {
        let progress = shape::progress(&self.app, &job).await?;
        Ok(shape::Job::from(job).at(progress))
    }

    /// Makes sure that somebody works on what was sent for a job that has ended.
    pub(crate) fn attend(&self, job: &JobId) {
        if let Some(workers) = &self.workers {
            workers.attend(job);
        }
    }
}
