//! Documents that come as objects: announced first and then uploaded, or simply put there.
//!
//! ```text
//! begin ──> upload#ID ──> (the caller uploads) ──> arrived ──> intended job ──> job ──> job noted
//! ```
//!
//! [`arrived`] may be called any number of times for one object and may die anywhere: the id that
//! a job for this content will have is written down before the job is made.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    digest::sha256_hex,
    events::Store,
    ids::{JobId, TenantId},
    intake::{
        Intake,
        options::{OptionError, OptionOverrides},
        submit::{Submission, SubmitError, Submitted, hash_file, submit_as},
        uploads::{self, Intended, Upload},
    },
    job::{Failure, Job, JobOptions, jobs},
    ports::Fault,
    records::Versioned,
    secret::Secret,
    tenants,
    time::after,
    trace::TraceContext,
};

/// Where objects are put that are to become jobs: `incoming/{tenant}/…`.
pub const INCOMING: &str = "incoming/";

/// What says how a document beside it is to be processed ends so.
pub const SIDECAR_SUFFIX: &str = ".json";

/// Longest name of a document within an object's key.
const MAX_NAME_LEN: usize = 100;

/// Longest value that is taken from an object's metadata: part of a record's key.
const MAX_VALUE_LEN: usize = 255;

/// What is known of a document before it comes.
pub struct UploadAnnouncement {
    pub tenant: TenantId,
    pub user: Option<String>,
    /// What people call the document.
    pub name: String,
    pub options: JobOptions,
    pub password: Option<Secret>,
    /// The caller's own name for the request.
    pub idempotency_key: Option<String>,
    /// Where in their own trace the caller is.
    pub traceparent: Option<TraceContext>,
}

/// Writes down that a document will come; it is to be put under the answer's `key`. The same request by
/// the caller's own name is the same upload, for another `time`, or what became of it.
pub async fn begin(intake: &Intake, announced: UploadAnnouncement, time: Duration) -> Result<Upload, SubmitError> {
    write_down(intake, "api", announced, None, time).await
}

/// The same from afar, by somebody who does not know the settings that hold where the document is
/// taken in: `wishes` are laid over those then, and the announced options count for nothing.
pub async fn begin_from(
    intake: &Intake,
    source: &str,
    announced: UploadAnnouncement,
    wishes: &OptionOverrides,
    time: Duration,
) -> Result<Upload, SubmitError> {
    write_down(intake, source, announced, Some(wishes.told()), time).await
}

async fn write_down(
    intake: &Intake,
    source: &str,
    announced: UploadAnnouncement,
    wishes: Option<BTreeMap<String, String>>,
    time: Duration,
) -> Result<Upload, SubmitError> {
    let named = announced.idempotency_key.clone();
    let id = named.as_ref().map_or_else(|| intake.store.ids.fresh(), |key| named_id(&announced.tenant, key));
    let sealed_password = match &announced.password {
        Some(password) => Some(intake.vault.seal(password).await?),
        None => None,
    };
    let now = intake.store.clock.now();
    let upload = Upload {
        key: format!("{INCOMING}{}/{id}/{}", announced.tenant, key_name(&announced.name)),
        id,
        tenant: announced.tenant,
        user: announced.user,
        source: source.to_owned(),
        name: announced.name,
        options: announced.options,
        wishes,
        idempotency_key: announced.idempotency_key,
        traceparent: announced.traceparent,
        sealed_password,
        created_at: now,
        expires_at: after(now, time),
        intended: None,
        job: None,
        failure: None,
    };
    let mut known: Option<Versioned<Upload>> = None;
    loop {
        let wanted = match &known {
            None => upload.clone(),
            // Its job was deleted, and with it whatever was asked for: this is a new request.
            Some(Versioned { value, .. }) if value.is_forgotten() => upload.clone(),
            Some(Versioned { value, .. }) if value.name != upload.name || value.options != upload.options => {
                return Err(SubmitError::KeyReused { key: named.unwrap_or_default() });
            }
            Some(Versioned { value, .. }) if value.is_over() => return Ok(value.clone()),
            Some(Versioned { value, .. }) => Upload {
                expires_at: upload.expires_at,
                sealed_password: upload.sealed_password.clone(),
                ..value.clone()
            },
        };
        let there = uploads::save(&intake.store, known.as_ref(), wanted.clone()).await?;
        match there {
            Some(kept) if kept.value == wanted => return Ok(wanted),
            // The same was begun before, or went on meanwhile.
            there => known = there,
        }
    }
}

/// The id of an upload that its caller has a name for.
fn named_id(tenant: &TenantId, key: &str) -> String {
    sha256_hex(format!("upload of {tenant}: {key}").as_bytes())[..26].to_owned()
}

/// A name that is the same in every store, address and log: letters, digits, dot, dash, underscore.
fn key_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = &name[name.len().saturating_sub(MAX_NAME_LEN)..];
    if name.trim_matches(['.', '_']).is_empty() { "document.pdf".into() } else { name.to_owned() }
}

/// An object that is there now.
pub struct Object<'a> {
    pub key: &'a str,
    /// Tells this content of the key from others: the store's version, entity tag or sequence.
    pub version: &'a str,
    /// The object's content.
    pub file: &'a Path,
    /// As the store keeps it beside the object; options among it count where no upload was begun,
    /// and so do `name`, `user`, `idempotency-key` and `traceparent`.
    pub metadata: &'a BTreeMap<String, String>,
    /// Opens the document, where no upload was begun.
    pub password: Option<&'a Secret>,
}

#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    #[error("{0:?} is not a key of the form incoming/TENANT/NAME")]
    Elsewhere(String),
    /// It can't become a job, now or later; the upload's record says so too.
    #[error("{}", .0.reason)]
    Refused(Failure),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Makes the job that an object stands for, or finds it.
pub async fn arrived(intake: &Intake, object: Object<'_>) -> Result<Submitted, ArrivalError> {
    let mut kept = record_of(intake, &object).await?;
    let upload = &kept.value;
    if let Some(failure) = &upload.failure {
        return Err(ArrivalError::Refused(failure.clone()));
    }
    if let Some(job) = &upload.job {
        let known = jobs::find(&intake.store, job).await?.map(|kept| kept.value);
        return match known {
            Some(job) => Ok(Submitted { job, existed: true }),
            None => Err(refusal("job_deleted", "the job that this object became was deleted")),
        };
    }
    let sha256 = hash(intake, &upload.tenant, object.file.to_owned()).await?;
    let id = loop {
        match &kept.value.intended {
            Some(intended) if intended.sha256 == sha256 => break intended.job.clone(),
            _ => {
                let intended = Intended { job: JobId::new(intake.store.ids.fresh()), sha256: sha256.clone() };
                let next = Upload { intended: Some(intended), ..kept.value.clone() };
                kept = uploads::save(&intake.store, Some(&kept), next).await?.ok_or_else(gone)?;
            }
        }
    };
    let upload = &kept.value;
    let password = match &upload.sealed_password {
        Some(sealed) => Some(intake.vault.open(sealed).await?),
        None => None,
    };
    let options = match &upload.wishes {
        None => upload.options.clone(),
        Some(told) => {
            // Written by another version if they can't be read.
            let wishes =
                OptionOverrides::among(told).map_err(|mistakes| refusal("bad_options", listed(&mistakes)))?;
            wishes
                .over(JobOptions::from_settings(&*tenants::settings(&intake.tenants, &upload.tenant).await?))
        }
    };
    let submission = Submission {
        tenant: upload.tenant.clone(),
        user: upload.user.clone(),
        source: upload.source.clone(),
        name: upload.name.clone(),
        file: object.file.to_owned(),
        password,
        options,
        idempotency_key: upload.idempotency_key.clone(),
        traceparent: upload.traceparent,
    };
    match submit_as(intake, Some(id), submission).await {
        Ok(submitted) => {
            note(&intake.store, kept, |upload| upload.job = Some(submitted.job.id.clone())).await?;
            Ok(submitted)
        }
        Err(SubmitError::Fault(fault)) => Err(fault.into()),
        Err(SubmitError::Unreadable { file, error }) => Err(unreadable(&file, error).into()),
        Err(error) => {
            let failure = Failure { code: code(&error).into(), reason: error.to_string() };
            note(&intake.store, kept, |upload| upload.failure = Some(failure.clone())).await?;
            Err(ArrivalError::Refused(failure))
        }
    }
}

fn code(error: &SubmitError) -> &'static str {
    match error {
        SubmitError::TooLarge { .. } => "file_too_large",
        SubmitError::KeyReused { .. } => "idempotency_key_reused",
        SubmitError::BadOptions(_) => "bad_options",
        SubmitError::UnknownTenant(_) => "unknown_tenant",
        SubmitError::Unreadable { .. } | SubmitError::Fault(_) => "internal",
    }
}

fn refusal(code: &str, reason: impl Into<String>) -> ArrivalError {
    ArrivalError::Refused(Failure { code: code.into(), reason: reason.into() })
}

fn listed(mistakes: &[OptionError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn gone() -> Fault {
    Fault::broken("records", "the upload's record is gone")
}

fn unreadable(file: &str, error: std::io::Error) -> Fault {
    Fault::Unreachable { service: "file", detail: format!("{file}: {error}") }
}

async fn hash(intake: &Intake, tenant: &TenantId, file: PathBuf) -> Result<String, Fault> {
    let limit = tenants::settings(&intake.tenants, tenant).await?.pdf.max_file_bytes;
    let name = file.display().to_string();
    Ok(hash_file(file, limit).await.map_err(|error| unreadable(&name, error))?.1)
}

/// Notes the end, unless another one was noted first. The password has done its work.
async fn note(store: &Store, mut kept: Versioned<Upload>, end: impl Fn(&mut Upload)) -> Result<(), Fault> {
    while !kept.value.is_over() {
        let mut next = kept.value.clone();
        next.sealed_password = None;
        end(&mut next);
        kept = uploads::save(store, Some(&kept), next).await?.ok_or_else(gone)?;
    }
    Ok(())
}

/// The id of the upload's record of an object that nobody announced.
pub fn object_id(key: &str, version: &str) -> String {
    format!("object-{}", &sha256_hex(format!("{key}\n{version}").as_bytes())[..32])
}

/// The upload that an object belongs to; one that was not announced gets a record of its own, so
/// that a notice that comes again finds what was made of it.
async fn record_of(intake: &Intake, object: &Object<'_>) -> Result<Versioned<Upload>, ArrivalError> {
    let elsewhere = || ArrivalError::Elsewhere(object.key.to_owned());
    let (tenant, rest) =
        object.key.strip_prefix(INCOMING).and_then(|rest| rest.split_once('/')).ok_or_else(elsewhere)?;
    if tenant.is_empty() || rest.is_empty() || rest.ends_with('/') {
        return Err(elsewhere());
    }
    if let Some((id, _)) = rest.split_once('/')
        && let Some(begun) = uploads::find(&intake.store, id).await?
        && (begun.value.key == object.key || begun.value.is_forgotten())
    {
        return Ok(begun);
    }
    let id = object_id(object.key, object.version);
    if let Some(known) = uploads::find(&intake.store, &id).await? {
        return Ok(known);
    }
    let tenant = TenantId::new(tenant);
    if !intake.settings.knows(&tenant) {
        // Nothing is kept under a name that may be a slip of the pen.
        return Err(refusal("unknown_tenant", SubmitError::UnknownTenant(tenant).to_string()));
    }
    let default = JobOptions::from_settings(&*tenants::settings(&intake.tenants, &tenant).await?);
    let (wishes, mut mistakes) = match OptionOverrides::among(object.metadata) {
        Ok(wishes) => (wishes, vec![]),
        Err(mistakes) => (OptionOverrides::default(), mistakes),
    };
    let mut said = |name: &str| {
        let same = |(key, _): &(&String, &String)| key.eq_ignore_ascii_case(name);
        let value = object.metadata.iter().find(same).map(|(_, value)| value.trim())?;
        if value.len() > MAX_VALUE_LEN {
            mistakes.push(OptionError::new(name, format!("it has more than {MAX_VALUE_LEN} bytes")));
        }
        (1..=MAX_VALUE_LEN).contains(&value.len()).then(|| value.to_owned())
    };
    let sealed_password = match object.password {
        Some(password) => Some(intake.vault.seal(password).await?),
        None => None,
    };
    let (user, name, key) = (said("user"), said("name"), said("idempotency-key"));
    let traceparent = said("traceparent").and_then(|text| text.parse().ok());
    let failure =
        (!mistakes.is_empty()).then(|| Failure { code: "bad_options".into(), reason: listed(&mistakes) });
    let forced = wishes.force.then(|| id.clone());
    let now = intake.store.clock.now();
    let upload = Upload {
        id,
        tenant,
        user,
        source: "s3".into(),
        name: name.unwrap_or_else(|| rest.rsplit('/').next().unwrap_or(rest).to_owned()),
        options: wishes.over(default),
        wishes: None,
        idempotency_key: key.or(forced),
        traceparent,
        sealed_password,
        key: object.key.to_owned(),
        created_at: now,
        expires_at: now,
        intended: None,
        job: None,
        failure,
    };
    Ok(uploads::save(&intake.store, None, upload).await?.ok_or_else(gone)?)
}

/// What an id that a caller holds stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Job(Box<Job>),
    /// An upload that has not become a job, or can't.
    Upload(Box<Upload>),
}

/// What a tenant means by a job's id, which may be an upload's. Another tenant's is as good as none.
pub async fn find(store: &Store, tenant: &TenantId, id: &JobId) -> Result<Option<Named>, Fault> {
    let job_of = async |id: &JobId| {
        let kept = jobs::find(store, id).await?;
        Ok::<_, Fault>(kept.map(|kept| kept.value).filter(|job| job.received.tenant == *tenant))
    };
    if let Some(job) = job_of(id).await? {
        return Ok(Some(Named::Job(Box::new(job))));
    }
    let upload = uploads::find(store, id.as_str()).await?.map(|kept| kept.value);
    let Some(upload) = upload.filter(|upload| upload.tenant == *tenant) else {
        return Ok(None);
    };
    // Between the making of a job and its being noted, the intention tells it.
    let intended = upload.intended.as_ref().map(|intended| &intended.job);
    let Some(became) = upload.job.as_ref().or(intended) else {
        return Ok(Some(Named::Upload(Box::new(upload))));
    };
    match job_of(became).await? {
        Some(job) => Ok(Some(Named::Job(Box::new(job)))),
        // Its job was deleted.
        None if upload.job.is_some() => Ok(None),
        None => Ok(Some(Named::Upload(Box::new(upload)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_keys_that_every_store_takes() {
        assert_eq!(key_name("Jahresbericht 2026 (für Ålesund).pdf"), "Jahresbericht_2026__f_r__lesund_.pdf");
        assert_eq!(key_name("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(key_name(""), "document.pdf");
        assert_eq!(key_name(&"x".repeat(300)).len(), MAX_NAME_LEN);
    }
}
