//! The store of uploads: announced ones, and objects that arrived unannounced.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    events::Store,
    ids::{JobId, TenantId},
    job::{Failure, JobOptions, RequestSource},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{self, ListPage, Versioned, decode, encode, read_all},
    time::after,
    trace::TraceContext,
};

/// Objects under this prefix become jobs: `incoming/{tenant}/…`.
pub const INCOMING: &str = "incoming/";

/// Suffix of the key of a sidecar: an object with the options of the document next to it.
pub const SIDECAR_SUFFIX: &str = ".json";

/// How long a record is stored after its link expired. An upload may be in progress at that moment, and its
/// notification arrives later still.
const RETENTION_AFTER_EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// Callers use it as the job's id, before and after the job exists.
    pub id: String,
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub source: RequestSource,
    pub name: String,
    pub options: JobOptions,
    /// Set if the caller that announced it does not know this installation's settings: these option
    /// overrides are applied to the settings when the object arrives, and `options` is ignored.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "wishes",
        deserialize_with = "overrides_of_any_version"
    )]
    pub overrides: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// The document's password, sealed by the vault; deleted when the job has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_password: Option<String>,
    /// The object's key; empty once its job was deleted.
    pub key: String,
    pub created_at: Timestamp,
    /// When the link expires.
    pub expires_at: Timestamp,
    /// Recorded before the job is created, so that a retry after a crash creates no second job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended: Option<Intended>,
    /// The job of the object, or the job that the same request created before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Why the object did not become a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Reads option overrides; version 0.1 had other names for two of them.
fn overrides_of_any_version<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let mut overrides = Option::<BTreeMap<String, String>>::deserialize(deserializer)?;
    for (old, name) in [("engine", "provider"), ("again", "force")] {
        if let Some(map) = &mut overrides
            && let Some(value) = map.remove(old)
        {
            map.entry(name.to_owned()).or_insert(value);
        }
    }
    Ok(overrides)
}

/// The id of the job that is going to be created for this content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intended {
    pub job: JobId,
    pub sha256: String,
}

impl Upload {
    /// It has become a job or was refused, and does not change any more.
    pub fn is_over(&self) -> bool {
        self.job.is_some() || self.failure.is_some()
    }

    /// Its job was deleted, or its tenant was erased. The id is stored for a while, so that a late
    /// notification creates no new job.
    pub fn is_erased(&self) -> bool {
        self.is_over() && self.key.is_empty()
    }
}

/// The upload that a job was created from. A job can have several, all of the same content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The upload's id.
    pub id: String,
    /// The object's key.
    pub key: String,
}

pub async fn find(store: &Store, id: &str) -> Result<Option<Versioned<Upload>>, Fault> {
    store.records.get(&record::upload(id)).await?.as_ref().map(decode).transpose()
}

/// Stores an upload that was `before`. If another process changed it in between, it stays as it is; either
/// way, the stored upload is returned.
pub async fn save(
    store: &Store,
    before: Option<&Versioned<Upload>>,
    upload: Upload,
) -> Result<Option<Versioned<Upload>>, Fault> {
    // Callers of the API have this id: it stays valid as long as the job exists.
    let is_permanent = upload.job.is_some() && upload.source == RequestSource::Api && !upload.is_erased();
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    let draft = Draft {
        tenant_index: (!upload.is_over()).then(|| {
            let time = index::by_time(upload.created_at, &upload.id);
            IndexEntry::new(index::uploads(&upload.tenant), time)
        }),
        expires: (!is_permanent).then(|| after(upload.expires_at, RETENTION_AFTER_EXPIRY)),
        ..Draft::new(record::upload(&upload.id), encode(&upload)?)
    };
    let mut changes = vec![Change::Put { draft, when }];
    if let Some(job) = &upload.job
        && before.is_some_and(|before| before.value.job.is_none())
    {
        let origin = Origin { id: upload.id.clone(), key: upload.key.clone() };
        let key = record::job_upload(job, &upload.id);
        changes.push(Change::Put { draft: Draft::new(key, encode(&origin)?), when: When::Absent });
    }
    match store.write(changes).await? {
        Written::Applied => Ok(Some(Versioned { value: upload, version: when.next_version() })),
        Written::Refused { existing, .. } => existing.map(|item| decode(&item)).transpose(),
    }
}

/// The uploads that this job was created from.
pub async fn origins(store: &Store, job: &JobId) -> Result<Vec<Origin>, Fault> {
    let all = read_all(store.records.as_ref(), &record::job_partition(job), record::JOB_UPLOADS).await?;
    Ok(all.into_iter().map(|origin| origin.value).collect())
}

/// The upload without everything about its document.
fn without_document(upload: &Upload) -> Upload {
    Upload {
        name: String::new(),
        user: None,
        overrides: None,
        idempotency_key: None,
        traceparent: None,
        sealed_password: None,
        key: String::new(),
        intended: None,
        ..upload.clone()
    }
}

/// Erases everything about the document from an upload. Its id is stored for a while.
pub async fn erase(store: &Store, id: &str) -> Result<(), Fault> {
    let mut known = find(store, id).await?;
    while let Some(before) = known.filter(|known| !known.value.is_erased()) {
        known = save(store, Some(&before), without_document(&before.value)).await?;
    }
    Ok(())
}

/// Erases an upload that has not become a job, because its tenant is erased; its link leads nowhere from then
/// on. False if there is nothing to erase.
pub async fn discard(store: &Store, id: &str) -> Result<bool, Fault> {
    let Some(before) = find(store, id).await?.filter(|known| !known.value.is_over()) else {
        return Ok(false);
    };
    let reason = "the tenant was erased".to_owned();
    let failure = Some(Failure { code: "tenant_erased".to_owned(), reason });
    // In one write: once it has a failure, it is not listed any more. If it was changed in between, the caller
    // lists it again.
    save(store, Some(&before), Upload { failure, ..without_document(&before.value) }).await?;
    Ok(true)
}

/// A page of a tenant's uploads whose document has not arrived, newest first.
pub async fn list_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Upload) -> bool,
) -> Result<ListPage<Upload>, Fault> {
    records::list_page(
        store.records.as_ref(),
        Index::Tenant,
        &index::uploads(tenant),
        after,
        true,
        limit,
        wanted,
    )
    .await
}
