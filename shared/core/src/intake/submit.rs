//! Accepts a request as a job: exactly once, however often it is repeated.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::warn;

use crate::{
    admission::line,
    digest::{hex, sha256_hex},
    event::Actor,
    ids::{CorrelationId, JobId, TenantId},
    intake::Intake,
    job::{
        DocumentInfo, Job, JobEvent, JobOptions, Received, RequestSource, State,
        jobs::{self, Idempotency, JobError},
        passwords, telemetry as job_telemetry,
    },
    keys::{blob, record},
    ports::{
        Fault,
        records::{Change, When, Written},
    },
    secret::Secret,
    settings::show_duration,
    tenants::{
        self,
        administration::{self, ActError, TenantClosed},
    },
    time::after,
    trace::TraceContext,
};

/// Within this time, a request with the same document and options is a repetition.
const IDEMPOTENCY_WINDOW: Duration = Duration::from_secs(24 * 3600);

pub struct Submission {
    pub tenant: TenantId,
    pub user: Option<String>,
    pub source: RequestSource,
    /// The document's name, for people.
    pub name: String,
    pub file: PathBuf,
    pub password: Option<Secret>,
    pub options: JobOptions,
    /// The caller's name for the request.
    pub idempotency_key: Option<String>,
    /// The caller's trace context.
    pub traceparent: Option<TraceContext>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub job: Job,
    /// The request was a repetition: the job existed before.
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
    #[error("invalid options: {0}")]
    BadOptions(String),
    #[error("unknown tenant {:?}: TENANTS does not include it", .0.as_str())]
    UnknownTenant(TenantId),
    #[error(transparent)]
    Closed(TenantClosed),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<ActError> for SubmitError {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Closed(closed) => Self::Closed(closed),
            ActError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// Creates the job, or finds the job of the same request, and starts its flow if there is room for it.
///
/// When it has returned, the job is durable. If it fails, at most an unused copy of the file is left.
pub async fn submit(intake: &Intake, submission: Submission) -> Result<Submitted, SubmitError> {
    submit_as(intake, None, submission).await
}

/// A job id that the caller chose and recorded for a document, with what it measured of it.
pub struct Chosen {
    pub id: JobId,
    pub file: MeasuredFile,
}

/// Size and SHA-256 of a file; the hash is empty if the file is over the limit of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredFile {
    pub bytes: u64,
    pub sha256: String,
}

/// Like [`submit`], with a job id that the caller chose for this document: a retry after a crash finds the job
/// that was created before. The file is not hashed again.
pub async fn submit_as(
    intake: &Intake,
    chosen: Option<Chosen>,
    submission: Submission,
) -> Result<Submitted, SubmitError> {
    let (chosen, measured) = chosen.map(|chosen| (chosen.id, chosen.file)).unzip();
    if !intake.settings.allows_tenant(&submission.tenant) {
        return Err(SubmitError::UnknownTenant(submission.tenant));
    }
    if submission.options.job_timeout_ms == 0 {
        return Err(SubmitError::BadOptions("the deadline must be in the future".into()));
    }
    let (time, limit) = (submission.options.job_timeout(), intake.settings.max_deadline);
    if time > limit {
        let (time, limit) = (show_duration(&time), show_duration(&limit));
        let reason = format!("the deadline is {time} from now; at most {limit} are allowed (MAX_DEADLINE)");
        return Err(SubmitError::BadOptions(reason));
    }
    let arrived_at = intake.store.clock.now();
    let document = describe(intake, &submission, measured).await?;
    // Without the password, so that nothing is stored from which it could be guessed. A request with another
    // password is a new one all the same, because the first has failed by then.
    let fingerprint =
        sha256_hex(format!("{}/{}", document.sha256, submission.options.fingerprint()).as_bytes());
    let caller_key = submission.idempotency_key.clone();
    let request =
        caller_key.as_ref().map_or_else(|| format!("content:{fingerprint}"), |key| format!("key:{key}"));
    let key = record::idempotency(&submission.tenant, &request);

    let id = chosen.clone().unwrap_or_else(|| JobId::new(intake.store.ids.fresh()));
    loop {
        if let Some(chosen) = &chosen
            && let Some(created) = jobs::find(&intake.store, chosen).await?
        {
            return Ok(Submitted { job: proceed(intake, created.value).await?, existed: true });
        }
        let now = intake.store.clock.now();
        let known = jobs::find_idempotency(&intake.store, &key).await?;
        if let Some(known) = known.as_ref().filter(|known| now < known.value.expires) {
            if known.value.fingerprint != fingerprint {
                return Err(SubmitError::KeyReused { key: caller_key.unwrap_or_default() });
            }
            let job = jobs::load(&intake.store, &known.value.job).await.map_err(unexpected)?.value;
            // A document that is sent again after it was cancelled or failed becomes a new job; with an
            // idempotency key, the caller gets the earlier job.
            let ended_badly = matches!(job.state, State::Cancelled | State::Failed | State::Rejected);
            if caller_key.is_some() || !ended_badly {
                let existed = job.id != id;
                return Ok(Submitted { job: proceed(intake, job).await?, existed });
            }
        }
        intake.blobs.put_file(&blob::source(&id), &submission.file).await?;
        let correlation = CorrelationId::new(id.as_str());
        let received = Received {
            tenant: submission.tenant.clone(),
            user: submission.user.clone(),
            source: submission.source,
            document: document.clone(),
            options: submission.options.clone(),
            idempotency_key: request.clone(),
            traceparent: submission.traceparent,
        };
        // Unless the caller gave a deadline, the time runs from admission.
        let time = match submission.options.deadline_given {
            true => submission.options.job_timeout(),
            false => intake.settings.max_deadline,
        };
        let place = line::take_place(&intake.store, &submission.tenant, submission.options.priority).await?;
        let acked = JobEvent::Acked { deadline: after(now, time), place: Some(place) };
        let events = [JobEvent::Received(received), acked];
        let (job, mut changes) =
            jobs::changes(&intake.store, Actor::Intake, None, &id, &correlation, &events)
                .map_err(unexpected)?;
        changes.extend(line::due_change(&job)?);
        let record = Idempotency {
            job: id.clone(),
            fingerprint: fingerprint.clone(),
            expires: after(now, IDEMPOTENCY_WINDOW),
        };
        let when = known.map_or(When::Absent, |known| When::Version(known.version));
        changes.push(Change::Put { draft: jobs::idempotency_draft(key.clone(), &record)?, when });
        if let Some(password) = &submission.password {
            changes.push(passwords::put_change(&intake.store, intake.vault.as_ref(), &id, password).await?);
        }
        // As late as possible: what is written in spite of it is found by the erasure.
        if let Err(error) = administration::check_open(&intake.store, &submission.tenant).await {
            if matches!(error, ActError::Closed(_)) {
                intake.blobs.delete_all(&blob::job(&id)).await?;
            }
            return Err(error.into());
        }
        match intake.store.write(changes).await? {
            Written::Applied => {
                job_telemetry::submitted(&intake.store, &job, arrived_at);
                return Ok(Submitted { job: admit(intake, job).await, existed: false });
            }
            // The request arrived twice concurrently; the other one created the job.
            Written::Refused { .. } if chosen.is_none() => {
                intake.blobs.delete_all(&blob::job(&id)).await?;
            }
            // Another process may have created the job with the chosen id: the copy belongs to it.
            Written::Refused { .. } => {}
        }
    }
}

/// Admits a job that was accepted, if there is room for it. After a fault it waits: it is durable, and admitted
/// later.
async fn admit(intake: &Intake, job: Job) -> Job {
    match intake.admission.admit(Some(&job)).await {
        Ok(admitted) => admitted.into_iter().find(|one| one.id == job.id).unwrap_or(job),
        Err(fault) => {
            warn!(%fault, job = %job.id, "not admitted yet");
            job
        }
    }
}

/// Continues a job that was created before: the process that created it may have died before it admitted it or
/// started its flow. Starting it twice is harmless.
async fn proceed(intake: &Intake, job: Job) -> Result<Job, Fault> {
    if job.is_waiting() {
        return Ok(admit(intake, job).await);
    }
    if !job.state.is_terminal() {
        intake.admission.flow.start(&job.flow_start()).await?;
    }
    Ok(job)
}

fn unexpected(error: JobError) -> SubmitError {
    match error {
        JobError::Fault(fault) => SubmitError::Fault(fault),
        error => SubmitError::Fault(Fault::broken("records", error)),
    }
}

async fn describe(
    intake: &Intake,
    submission: &Submission,
    measured: Option<MeasuredFile>,
) -> Result<DocumentInfo, SubmitError> {
    let limit = tenants::settings(&intake.tenants, &submission.tenant).await?.pdf.max_file_bytes;
    let (file, name) = (submission.file.clone(), submission.name.clone());
    let measured = match measured {
        Some(measured) => Ok(measured),
        None => hash_file(file, limit).await,
    };
    let MeasuredFile { bytes, sha256 } =
        measured.map_err(|error| SubmitError::Unreadable { file: name.clone(), error })?;
    if bytes > limit {
        return Err(SubmitError::TooLarge { file: name, bytes, limit });
    }
    Ok(DocumentInfo { name, bytes, sha256 })
}

/// Size and SHA-256 of a file; if it is larger than `limit` bytes, it is not read and the hash is empty.
pub(super) async fn hash_file(path: PathBuf, limit: u64) -> std::io::Result<MeasuredFile> {
    // On a single-threaded runtime another thread would make the order of a simulation random.
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return hash_blocking(&path, limit);
    }
    let hashed = tokio::task::spawn_blocking(move || hash_blocking(&path, limit)).await;
    hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn hash_blocking(path: &Path, limit: u64) -> std::io::Result<MeasuredFile> {
    let mut file = std::fs::File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let what =
            if meta.is_dir() { "it is a folder: name the documents in it" } else { "it is not a file" };
        return Err(std::io::Error::other(what));
    }
    if meta.len() > limit {
        return Ok(MeasuredFile { bytes: meta.len(), sha256: String::new() });
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(MeasuredFile { bytes, sha256: hex(&hash.finalize()) });
        }
        bytes += count as u64;
        hash.update(&buffer[..count]);
    }
}
