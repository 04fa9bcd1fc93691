//! Accepts an uploaded object as a job, whether or not the upload was announced.
//!
//! ```text
//! announce ─▶ upload record ─▶ (the caller uploads) ─▶ accept ─▶ intended job id ─▶ job ─▶ upload record
//! ```
//!
//! [`accept`] may be called any number of times for one object, and may crash anywhere: the id of the job
//! for this content is recorded before the job is created.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    digest::sha256_hex,
    events::Store,
    ids::{JobId, TenantId},
    intake::{
        Intake,
        options::{OptionError, OptionOverrides},
        submit::{Chosen, MeasuredFile, Submission, SubmitError, Submitted, hash_file, submit_as},
        uploads::{self, INCOMING, Intended, Upload},
    },
    job::{Failure, JobOptions, RequestSource, jobs},
    ports::Fault,
    records::Versioned,
    secret::Secret,
    tenants::{
        self,
        administration::{self, ActError},
    },
};

/// Maximum length of a value from an object's metadata, because it becomes part of a record key.
const MAX_VALUE_LEN: usize = 255;

/// An uploaded object.
pub struct Object<'a> {
    pub key: &'a str,
    /// Identifies the content under this key: the store's version, entity tag or sequence number.
    pub version: &'a str,
    /// A local copy of the content.
    pub file: &'a Path,
    /// The object's metadata. For an unannounced object it may hold options, `name`, `user`,
    /// `idempotency-key` and `traceparent`.
    pub metadata: &'a BTreeMap<String, String>,
    /// The document's password, for an unannounced object.
    pub password: Option<&'a Secret>,
}

#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    #[error("{0:?} is not a key of the form incoming/TENANT/NAME")]
    Elsewhere(String),
    /// The object can't become a job, now or later. The upload record has the failure, too.
    #[error("{}", .0.reason)]
    Refused(Failure),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Creates the job of an object, or finds the job that was created before. The object of an announced upload that
/// is refused is deleted: it would never be listed nor used.
pub async fn accept(intake: &Intake, object: Object<'_>) -> Result<Submitted, ArrivalError> {
    let announced = find_announced(intake, object.key).await?;
    let (key, is_announced) = (object.key, announced.is_some());
    let accepted = match announced {
        Some(announced) => accept_as(intake, object, announced).await,
        None => {
            let record = find_or_create_upload(intake, &object).await?;
            accept_as(intake, object, record).await
        }
    };
    if is_announced && matches!(accepted, Err(ArrivalError::Refused(_))) {
        intake.blobs.delete(key).await?;
    }
    accepted
}

async fn accept_as(
    intake: &Intake,
    object: Object<'_>,
    mut record: Versioned<Upload>,
) -> Result<Submitted, ArrivalError> {
    if let Some(failure) = &record.value.failure {
        return Err(ArrivalError::Refused(failure.clone()));
    }
    if let Some(job) = &record.value.job {
        return match jobs::find(&intake.store, job).await? {
            Some(job) => Ok(Submitted { job: job.value, existed: true }),
            None => Err(refusal("job_deleted", "the job of this object was deleted")),
        };
    }
    check_open(intake, &record.value.tenant).await?;
    let file = measure(intake, &record.value.tenant, object.file.to_owned()).await?;
    let id = loop {
        match &record.value.intended {
            Some(intended) if intended.sha256 == file.sha256 => break intended.job.clone(),
            _ => {
                let (job, sha256) = (JobId::new(intake.store.ids.fresh()), file.sha256.clone());
                let intended = Intended { job, sha256 };
                let next = Upload { intended: Some(intended), ..record.value.clone() };
                record = uploads::save(&intake.store, Some(&record), next).await?.ok_or_else(missing)?;
            }
        }
    };
    let submission = submission(intake, &record.value, object.file).await?;
    match submit_as(intake, Some(Chosen { id, file }), submission).await {
        Ok(submitted) => {
            finish(&intake.store, record, |upload| upload.job = Some(submitted.job.id.clone())).await?;
            Ok(submitted)
        }
        Err(SubmitError::Fault(fault)) => Err(fault.into()),
        Err(SubmitError::Unreadable { file, error }) => Err(unreadable(&file, error).into()),
        Err(error) => {
            let failure = Failure { code: code(&error).into(), reason: error.to_string() };
            finish(&intake.store, record, |upload| upload.failure = Some(failure.clone())).await?;
            Err(ArrivalError::Refused(failure))
        }
    }
}

async fn submission(intake: &Intake, upload: &Upload, file: &Path) -> Result<Submission, ArrivalError> {
    let password = match &upload.sealed_password {
        Some(sealed) => Some(intake.vault.open(sealed).await?),
        None => None,
    };
    let options = match &upload.overrides {
        None => upload.options.clone(),
        Some(map) => {
            // They were valid when they were stored; another version of the program may accept others.
            let overrides =
                OptionOverrides::from_map(map).map_err(|errors| refusal("bad_options", join(&errors)))?;
            let settings = tenants::settings(&intake.tenants, &upload.tenant).await?;
            overrides.apply_to(JobOptions::from_settings(&settings))
        }
    };
    Ok(Submission {
        tenant: upload.tenant.clone(),
        user: upload.user.clone(),
        source: upload.source,
        name: upload.name.clone(),
        file: file.to_owned(),
        password,
        options,
        idempotency_key: upload.idempotency_key.clone(),
        traceparent: upload.traceparent,
    })
}

fn code(error: &SubmitError) -> &'static str {
    match error {
        SubmitError::TooLarge { .. } => "file_too_large",
        SubmitError::KeyReused { .. } => "idempotency_key_reused",
        SubmitError::BadOptions(_) => "bad_options",
        SubmitError::UnknownTenant(_) => "unknown_tenant",
        SubmitError::Closed(_) => "tenant_closed",
        SubmitError::Unreadable { .. } | SubmitError::Fault(_) => "internal",
    }
}

fn refusal(code: &str, reason: impl Into<String>) -> ArrivalError {
    ArrivalError::Refused(Failure { code: code.into(), reason: reason.into() })
}

fn join(errors: &[OptionError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn missing() -> Fault {
    Fault::broken("records", "the upload's record is missing")
}

fn unreadable(file: &str, error: std::io::Error) -> Fault {
    Fault::Unreachable { service: "file", detail: format!("{file}: {error}") }
}

async fn measure(intake: &Intake, tenant: &TenantId, file: PathBuf) -> Result<MeasuredFile, Fault> {
    let limit = tenants::settings(&intake.tenants, tenant).await?.pdf.max_file_bytes;
    let name = file.display().to_string();
    hash_file(file, limit).await.map_err(|error| unreadable(&name, error))
}

/// Stores the end of an upload, unless another process stored one first, and deletes its password.
async fn finish(
    store: &Store,
    mut record: Versioned<Upload>,
    end: impl Fn(&mut Upload),
) -> Result<(), Fault> {
    while !record.value.is_over() {
        let mut next = record.value.clone();
        next.sealed_password = None;
        end(&mut next);
        record = uploads::save(store, Some(&record), next).await?.ok_or_else(missing)?;
    }
    Ok(())
}

/// No record is written for a tenant that is being erased.
async fn check_open(intake: &Intake, tenant: &TenantId) -> Result<(), ArrivalError> {
    administration::check_open(&intake.store, tenant).await.map_err(|error| match error {
        ActError::Closed(closed) => refusal("tenant_closed", closed.to_string()),
        ActError::Fault(fault) => fault.into(),
    })
}

/// The upload id of an unannounced object.
pub fn object_id(key: &str, version: &str) -> String {
    format!("object-{}", &sha256_hex(format!("{key}\n{version}").as_bytes())[..32])
}

/// The announced upload that an object belongs to.
async fn find_announced(intake: &Intake, key: &str) -> Result<Option<Versioned<Upload>>, Fault> {
    let Some(rest) = key.strip_prefix(INCOMING) else { return Ok(None) };
    let mut parts = rest.splitn(3, '/');
    let (Some(_), Some(id), Some(_)) = (parts.next(), parts.next(), parts.next()) else { return Ok(None) };
    let found = uploads::find(&intake.store, id).await?;
    Ok(found.filter(|announced| announced.value.key == key || announced.value.is_erased()))
}

/// The upload record of an unannounced object. It gets a record of its own, so that a repeated
/// notification finds the job that was created.
async fn find_or_create_upload(
    intake: &Intake,
    object: &Object<'_>,
) -> Result<Versioned<Upload>, ArrivalError> {
    let elsewhere = || ArrivalError::Elsewhere(object.key.to_owned());
    let (tenant, rest) =
        object.key.strip_prefix(INCOMING).and_then(|rest| rest.split_once('/')).ok_or_else(elsewhere)?;
    if tenant.is_empty() || rest.is_empty() || rest.ends_with('/') {
        return Err(elsewhere());
    }
    let id = object_id(object.key, object.version);
    if let Some(known) = uploads::find(&intake.store, &id).await? {
        return Ok(known);
    }
    let tenant = TenantId::new(tenant);
    if !intake.settings.allows_tenant(&tenant) {
        // The tenant may be misspelled: no record is written for it.
        return Err(refusal("unknown_tenant", SubmitError::UnknownTenant(tenant).to_string()));
    }
    check_open(intake, &tenant).await?;
    let upload = unannounced(intake, object, id, tenant, rest).await?;
    Ok(uploads::save(&intake.store, None, upload).await?.ok_or_else(missing)?)
}

/// The upload of an unannounced object, with the options of its metadata. Invalid ones become its failure.
async fn unannounced(
    intake: &Intake,
    object: &Object<'_>,
    id: String,
    tenant: TenantId,
    path: &str,
) -> Result<Upload, Fault> {
    let default = JobOptions::from_settings(&*tenants::settings(&intake.tenants, &tenant).await?);
    let (overrides, mut errors) = match OptionOverrides::from_map(object.metadata) {
        Ok(overrides) => (overrides, vec![]),
        Err(errors) => (OptionOverrides::default(), errors),
    };
    let mut value = |name: &str| {
        let is_named = |(key, _): &(&String, &String)| key.eq_ignore_ascii_case(name);
        let value = object.metadata.iter().find(is_named).map(|(_, value)| value.trim())?;
        if value.len() > MAX_VALUE_LEN {
            errors.push(OptionError::new(name, format!("it has more than {MAX_VALUE_LEN} bytes")));
        }
        (1..=MAX_VALUE_LEN).contains(&value.len()).then(|| value.to_owned())
    };
    let (user, name, key) = (value("user"), value("name"), value("idempotency-key"));
    let traceparent = value("traceparent").and_then(|text| text.parse().ok());
    let sealed_password = match object.password {
        Some(password) => Some(intake.vault.seal(password).await?),
        None => None,
    };
    let failure = (!errors.is_empty()).then(|| Failure { code: "bad_options".into(), reason: join(&errors) });
    // A forced job is a new request: it gets an idempotency key that no other request has.
    let forced = overrides.force.then(|| id.clone());
    let now = intake.store.clock.now();
    Ok(Upload {
        id,
        tenant,
        user,
        source: RequestSource::S3,
        name: name.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path).to_owned()),
        options: overrides.apply_to(default),
        overrides: None,
        idempotency_key: key.or(forced),
        traceparent,
        sealed_password,
        key: object.key.to_owned(),
        created_at: now,
        expires_at: now,
        intended: None,
        job: None,
        failure,
    })
}
