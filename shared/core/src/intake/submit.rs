//! From a request to an accepted job: once, however often it is asked.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    digest::{hex, sha256_hex},
    event::Actor,
    ids::{CorrelationId, JobId, TenantId},
    intake::Intake,
    job::{
        DocumentInfo, Job, JobEvent, JobOptions, Received, State,
        jobs::{self, Idempotency, JobError},
        passwords, telemetry as job_telemetry,
    },
    keys::{blob, record},
    ports::{
        Fault,
        records::{Change, When, Written},
    },
    secret::Secret,
    tenants,
    time::after,
    trace::TraceContext,
};

/// Within this the same document with the same options is the same request.
const SAME_REQUEST_FOR: Duration = Duration::from_secs(24 * 3600);

pub struct Submission {
    pub tenant: TenantId,
    pub user: Option<String>,
    /// The door: `cli`, `api` or `s3`.
    pub source: String,
    /// What people call the document.
    pub name: String,
    pub file: PathBuf,
    pub password: Option<Secret>,
    pub options: JobOptions,
    /// The caller's own name for the request.
    pub idempotency_key: Option<String>,
    /// Where in their own trace the caller is.
    pub traceparent: Option<TraceContext>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub job: Job,
    /// The job was there before: the request is a repetition.
    pub existed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("{file}: {error}")]
    Unreadable { file: String, error: std::io::Error },
    #[error("{file}: it has {bytes} bytes; the limit is {limit} (MAX_FILE_BYTES)")]
    TooLarge { file: String, bytes: u64, limit: u64 },
    #[error("the idempotency key {key:?} was used before for another document or other options")]
    KeyReused { key: String },
    #[error("the options can't be used: {0}")]
    BadOptions(String),
    #[error("there is no tenant {0} here; TENANTS names those that there are")]
    UnknownTenant(TenantId),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Makes the job durable and answers with it. Nothing is lost once this has answered; before
/// that, nothing but an unused copy of the file can be left behind.
pub async fn submit(intake: &Intake, submission: Submission) -> Result<Submitted, SubmitError> {
    submit_as(intake, None, submission).await
}

/// The same under an id that was chosen, and written down, for this very document: whoever comes
/// back with it after a crash is answered with the job that it made before.
pub async fn submit_as(
    intake: &Intake,
    chosen: Option<JobId>,
    submission: Submission,
) -> Result<Submitted, SubmitError> {
    if !intake.settings.knows(&submission.tenant) {
        return Err(SubmitError::UnknownTenant(submission.tenant));
    }
    if submission.options.job_timeout_ms == 0 {
        return Err(SubmitError::BadOptions("the deadline must be later than now".into()));
    }
    let came = intake.store.clock.now();
    let document = describe(intake, &submission).await?;
    // Without the password: nothing that could be guessed from is kept. Another try with another
    // password is a new request all the same, because the first has failed by then.
    let fingerprint =
        sha256_hex(format!("{}/{}", document.sha256, submission.options.fingerprint()).as_bytes());
    let named = submission.idempotency_key.clone();
    let request = named.as_ref().map_or_else(|| format!("content:{fingerprint}"), |key| format!("key:{key}"));
    let key = record::idempotency(&submission.tenant, &request);

    let id = chosen.clone().unwrap_or_else(|| JobId::new(intake.store.ids.fresh()));
    loop {
        if let Some(chosen) = &chosen
            && let Some(made) = jobs::find(&intake.store, chosen).await?
        {
            if !made.value.state.is_terminal() {
                intake.flow.start(chosen, made.value.redrives, &made.value.trace()).await?;
            }
            return Ok(Submitted { job: made.value, existed: true });
        }
        let now = intake.store.clock.now();
        let known = jobs::find_idempotency(&intake.store, &key).await?;
        if let Some(known) = known.as_ref().filter(|known| now < known.value.expires) {
            if known.value.fingerprint != fingerprint {
                return Err(SubmitError::KeyReused { key: named.unwrap_or_default() });
            }
            let job = jobs::load(&intake.store, &known.value.job).await.map_err(unexpected)?.value;
            // Who sends the same document again after a cancel or a failure wants it done; who names
            // the request wants to know what became of it.
            let ended_badly = matches!(job.state, State::Cancelled | State::Failed | State::Rejected);
            if named.is_some() || !ended_badly {
                // Whoever made it may have died before starting its flow; starting twice is harmless.
                if !job.state.is_terminal() {
                    intake.flow.start(&job.id, job.redrives, &job.trace()).await?;
                }
                let existed = job.id != id;
                return Ok(Submitted { job, existed });
            }
        }
        intake.blobs.put_file(&blob::source(&id), &submission.file).await?;
        let correlation = CorrelationId::new(id.as_str());
        let received = Received {
            tenant: submission.tenant.clone(),
            user: submission.user.clone(),
            source: submission.source.clone(),
            document: document.clone(),
            options: submission.options.clone(),
            idempotency_key: request.clone(),
            traceparent: submission.traceparent,
        };
        let deadline = after(now, submission.options.job_timeout());
        let events = [JobEvent::Received(received), JobEvent::Acked { deadline }];
        let (job, mut changes) = jobs::moves(&intake.store, Actor::Intake, None, &id, &correlation, &events)
            .map_err(unexpected)?;
        let record = Idempotency {
            job: id.clone(),
            fingerprint: fingerprint.clone(),
            expires: after(now, SAME_REQUEST_FOR),
        };
        let when = known.map_or(When::Absent, |kept| When::Version(kept.version));
        changes.push(Change::Put { draft: jobs::idempotency_draft(key.clone(), &record)?, when });
        if let Some(password) = &submission.password {
            changes.push(passwords::keep(&intake.store, intake.vault.as_ref(), &id, password).await?);
        }
        match intake.store.write(changes).await? {
            Written::Applied => {
                intake.flow.start(&id, 0, &job.trace()).await?;
                job_telemetry::submitted(&intake.store, &job, came);
                return Ok(Submitted { job, existed: false });
            }
            // The same request arrived twice at once; the other one made the job.
            Written::Refused { .. } if chosen.is_none() => {
                intake.blobs.delete_all(&blob::job(&id)).await?;
            }
            // A chosen id may be somebody else's as well by now, and the copy with it.
            Written::Refused { .. } => {}
        }
    }
}

fn unexpected(error: JobError) -> SubmitError {
    match error {
        JobError::Fault(fault) => SubmitError::Fault(fault),
        error => SubmitError::Fault(Fault::broken("records", error)),
    }
}

async fn describe(intake: &Intake, submission: &Submission) -> Result<DocumentInfo, SubmitError> {
    let limit = tenants::settings(&intake.tenants, &submission.tenant).await?.pdf.max_file_bytes;
    let (file, name) = (submission.file.clone(), submission.name.clone());
    let hashed = hash_file(file, limit).await;
    let (bytes, sha256) = hashed.map_err(|error| SubmitError::Unreadable { file: name.clone(), error })?;
    if bytes > limit {
        return Err(SubmitError::TooLarge { file: name, bytes, limit });
    }
    Ok(DocumentInfo { name, bytes, sha256 })
}

/// Size and SHA-256; a file over `limit` is not read.
pub(super) async fn hash_file(path: PathBuf, limit: u64) -> std::io::Result<(u64, String)> {
    // One thread has no other to leave it to, and a simulation must find the same order each time.
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return hash_here(&path, limit);
    }
    let hashed = tokio::task::spawn_blocking(move || hash_here(&path, limit)).await;
    hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn hash_here(path: &Path, limit: u64) -> std::io::Result<(u64, String)> {
    let mut file = std::fs::File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "it is a folder: name the PDFs in it" } else { "it is not a file" };
        return Err(std::io::Error::other(what));
    }
    if meta.len() > limit {
        return Ok((meta.len(), String::new()));
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        bytes += count as u64;
        hash.update(&buffer[..count]);
    }
}
