//! Finds the job or the upload of an id.

use crate::{
    events::Store,
    ids::{JobId, TenantId},
    intake::uploads::{self, Upload},
    job::{Job, jobs},
    ports::Fault,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOrUpload {
    Job(Box<Job>),
    /// An upload that has not become a job yet, or was refused.
    Upload(Box<Upload>),
}

/// Finds a tenant's job by its id or by the id of its upload; `None` for another tenant's.
pub async fn find(store: &Store, tenant: &TenantId, id: &JobId) -> Result<Option<JobOrUpload>, Fault> {
    let find_job = async |id: &JobId| {
        let job = jobs::find(store, id).await?;
        Ok::<_, Fault>(job.map(|job| job.value).filter(|job| job.received.tenant == *tenant))
    };
    if let Some(job) = find_job(id).await? {
        return Ok(Some(JobOrUpload::Job(Box::new(job))));
    }
    let upload = uploads::find(store, id.as_str()).await?.map(|upload| upload.value);
    let Some(upload) = upload.filter(|upload| upload.tenant == *tenant) else {
        return Ok(None);
    };
    // The job may have been created but not recorded in the upload yet: then it has the intended id.
    let intended = upload.intended.as_ref().map(|intended| &intended.job);
    let Some(job) = upload.job.as_ref().or(intended) else {
        return Ok(Some(JobOrUpload::Upload(Box::new(upload))));
    };
    match find_job(job).await? {
        Some(job) => Ok(Some(JobOrUpload::Job(Box::new(job)))),
        // The job was deleted.
        None if upload.job.is_some() => Ok(None),
        None => Ok(Some(JobOrUpload::Upload(Box::new(upload)))),
    }
}
