//! Objects that are to become jobs: uploads that were begun, and what came by itself.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    events::Store,
    ids::{JobId, TenantId},
    job::{Failure, JobOptions},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
    },
    records::{self, ListPage, Versioned, decode, encode, read_all},
    time::after,
    trace::TraceContext,
};

/// An object may be on its way when its link runs out, and its notice later still.
const KEPT_AFTER_EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// For callers it is a job's id, before and after there is a job.
    pub id: String,
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The door: `api`, `cli` or `s3`.
    pub source: String,
    pub name: String,
    pub options: JobOptions,
    /// Set when it was announced by somebody who does not know this installation's settings: what
    /// was asked for, as text, laid over those when the object arrives, instead of `options`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wishes: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// The document's password as the vault sealed it, until the job has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_password: Option<String>,
    /// Where the object is put; empty once its job was deleted.
    pub key: String,
    pub created_at: Timestamp,
    /// When the link runs out.
    pub expires_at: Timestamp,
    /// Written down before a job is made, so that a crash in between makes no second one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended: Option<Intended>,
    /// The job that the object became, or that was there for the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Why it became none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The id that a job for this content, and no other, will have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intended {
    pub job: JobId,
    pub sha256: String,
}

impl Upload {
    /// Nothing more happens to it.
    pub fn is_over(&self) -> bool {
        self.job.is_some() || self.failure.is_some()
    }

    /// Its job was deleted: it is known for a while, so that a late notice makes no new one.
    pub fn is_forgotten(&self) -> bool {
        self.job.is_some() && self.key.is_empty()
    }
}

/// Beside a job: where a document lies that became it. There may be several, all of the same content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The upload's.
    pub id: String,
    /// The object's.
    pub key: String,
}

pub async fn find(store: &Store, id: &str) -> Result<Option<Versioned<Upload>>, Fault> {
    store.records.get(&record::upload(id)).await?.as_ref().map(decode).transpose()
}

/// Writes it on the condition that nobody did since `before`; answers with what is there then.
pub async fn save(
    store: &Store,
    before: Option<&Versioned<Upload>>,
    upload: Upload,
) -> Result<Option<Versioned<Upload>>, Fault> {
    // An id that callers hold stays good for as long as its job does.
    let lasting = upload.job.is_some() && upload.source == "api" && !upload.is_forgotten();
    let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
    let draft = Draft {
        tenant_index: (!upload.is_over()).then(|| {
            let time = format!("{:.3}#{}", upload.created_at, upload.id);
            IndexEntry::new(index::uploads(&upload.tenant), time)
        }),
        expires: (!lasting).then(|| after(upload.expires_at, KEPT_AFTER_EXPIRY)),
        ..Draft::new(record::upload(&upload.id), encode(&upload)?)
    };
    let mut changes = vec![Change::Put { draft, when }];
    if let Some(job) = &upload.job
        && before.is_some_and(|kept| kept.value.job.is_none())
    {
        let origin = Origin { id: upload.id.clone(), key: upload.key.clone() };
        let place = record::job_upload(job, &upload.id);
        changes.push(Change::Put { draft: Draft::new(place, encode(&origin)?), when: When::Absent });
    }
    match store.write(changes).await? {
        Written::Applied => Ok(Some(Versioned { value: upload, version: when.next_version() })),
        Written::Refused { existing, .. } => existing.map(|item| decode(&item)).transpose(),
    }
}

/// Where the documents lie that became this job, apart from its own copy.
pub async fn origins(store: &Store, job: &JobId) -> Result<Vec<Origin>, Fault> {
    let all = read_all(store.records.as_ref(), &record::job_partition(job), record::JOB_UPLOADS).await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// Takes everything out of an upload that tells of its document. Its id is kept for a while.
pub async fn forget(store: &Store, id: &str) -> Result<(), Fault> {
    let mut known = find(store, id).await?;
    while let Some(kept) = known.filter(|kept| !kept.value.is_forgotten()) {
        let empty = Upload {
            name: String::new(),
            user: None,
            wishes: None,
            idempotency_key: None,
            traceparent: None,
            sealed_password: None,
            key: String::new(),
            intended: None,
            ..kept.value.clone()
        };
        known = save(store, Some(&kept), empty).await?;
    }
    Ok(())
}

/// A tenant's uploads whose document has not come, newest first.
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
