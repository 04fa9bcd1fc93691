//! Jobs: loaded, moved by events, listed.

use serde::{Deserialize, Serialize};

use crate::{
    billing::{account::Refused, accounts::AccountError, telemetry as billing_telemetry},
    event::{Actor, Aggregate},
    events::{Store, trail},
    ids::{CorrelationId, EventId, JobId, TenantId},
    invariants,
    job::{Illegal, Job, JobEvent, holds, passwords, telemetry as job_telemetry},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
    records::{self, ListPage, Versioned, decode, encode, read_index},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("there is no job {0}")]
    Unknown(JobId),
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The tenant's account does not allow it.
    #[error(transparent)]
    Credits(#[from] Refused),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<AccountError> for JobError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Refused(refused) => Self::Credits(refused),
            AccountError::Fault(fault) => Self::Fault(fault),
        }
    }
}

pub async fn find(store: &Store, id: &JobId) -> Result<Option<Versioned<Job>>, Fault> {
    store.records.get(&record::job(id)).await?.as_ref().map(decode).transpose()
}

pub async fn load(store: &Store, id: &JobId) -> Result<Versioned<Job>, JobError> {
    find(store, id).await?.ok_or_else(|| JobError::Unknown(id.clone()))
}

/// Those of them that are there.
pub async fn find_many(store: &Store, ids: impl Iterator<Item = JobId>) -> Result<Vec<Job>, Fault> {
    let keys: Vec<Key> = ids.map(|id| record::job(&id)).collect();
    let found = store.records.get_many(&keys).await?;
    found.iter().flatten().map(|item| Ok(decode(item)?.value)).collect()
}

fn draft(job: &Job) -> Result<Draft, Fault> {
    let open = !job.state.is_terminal();
    Ok(Draft {
        tenant_index: Some(IndexEntry::new(
            index::jobs(&job.received.tenant),
            format!("{:.3}#{}", job.received_at, job.id),
        )),
        state_index: open
            .then(|| IndexEntry::new(index::OPEN_JOBS, format!("{:.3}#{}", job.deadline, job.id))),
        ..Draft::new(record::job(&job.id), encode(job)?)
    })
}

/// The job after `events`, and the writes that make it so: the record and its new events, which
/// are stored together or not at all.
pub fn moves(
    store: &Store,
    actor: Actor,
    before: Option<&Versioned<Job>>,
    id: &JobId,
    correlation: &CorrelationId,
    events: &[JobEvent],
) -> Result<(Job, Vec<Change>), JobError> {
    let mut job = before.map(|kept| kept.value.clone());
    let mut changes = Vec::with_capacity(events.len() + 1);
    for event in events {
        let head = job.as_ref().map(|job| job.head.clone()).unwrap_or_default();
        let at = head.next_time(store.clock.now());
        let mut next = Job::apply(job.as_ref(), id, correlation, event, at)?;
        let metadata = next.metadata(actor, &store.environment);
        let event_id = EventId::new(store.ids.fresh());
        let (stored, head) =
            head.append(Aggregate::Job(id.clone()), event_id, event, at, correlation.clone(), metadata);
        changes.push(trail::append(store, &stored)?);
        next.head = head;
        job = Some(next);
    }
    let job = job.ok_or_else(|| JobError::Unknown(id.clone()))?;
    let published = before.and_then(|kept| kept.value.result.as_ref());
    invariants::assert(|| super::invariants::versions_count_up(published, job.result.as_ref()));
    let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
    changes.insert(0, Change::Put { draft: draft(&job)?, when });
    Ok((job, changes))
}

/// Reads the job, asks `decide` what should happen to it as it is now, and makes that so; asks
/// again when somebody else was faster. `decide` answering nothing leaves the job as it is.
pub async fn advance(
    store: &Store,
    actor: Actor,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
) -> Result<Versioned<Job>, JobError> {
    advance_with(store, actor, id, decide, false).await
}

/// The same for a step that ends intake: the document's password goes with it, in one write.
pub async fn advance_and_delete_password(
    store: &Store,
    actor: Actor,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
) -> Result<Versioned<Job>, JobError> {
    advance_with(store, actor, id, decide, true).await
}

async fn advance_with(
    store: &Store,
    actor: Actor,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
    forget_secret: bool,
) -> Result<Versioned<Job>, JobError> {
    loop {
        let kept = load(store, id).await?;
        let events = decide(&kept.value);
        if events.is_empty() {
            return Ok(kept);
        }
        let more = match forget_secret {
            true => passwords::forget(store, id).await?.into_iter().collect(),
            false => vec![],
        };
        if let Some(moved) = advance_once(store, actor, &kept, &events, more).await? {
            return Ok(moved);
        }
    }
}

/// The same for somebody who has decided on the job as it was, and writes `more` with it; `None` when
/// somebody else was faster.
pub async fn advance_once(
    store: &Store,
    actor: Actor,
    kept: &Versioned<Job>,
    events: &[JobEvent],
    more: Vec<Change>,
) -> Result<Option<Versioned<Job>>, JobError> {
    let (id, correlation) = (&kept.value.id, &kept.value.correlation_id);
    let (job, mut changes) = moves(store, actor, Some(kept), id, correlation, events)?;
    let (credits, account) = holds::follow(store, actor, &kept.value, &job, events).await?;
    changes.extend(account);
    changes.extend(more);
    if store.write(changes).await? != Written::Applied {
        return Ok(None);
    }
    job_telemetry::count_transition(&kept.value, &job, events);
    billing_telemetry::credits_moved(&credits);
    job_telemetry::record_job_span(store, &kept.value, &job);
    Ok(Some(Versioned { value: job, version: kept.version + 1 }))
}

/// A tenant's jobs, newest first.
pub async fn list(store: &Store, tenant: &TenantId, limit: usize) -> Result<Vec<Job>, Fault> {
    let partition = index::jobs(tenant);
    let listing = store.records.list_index(Index::Tenant, &partition, None, true, limit).await?;
    listing.items.iter().map(|item| Ok(decode(item)?.value)).collect()
}

/// Every job that has not ended, the nearest deadline first.
pub async fn open(store: &Store) -> Result<Vec<Job>, Fault> {
    let all =
        read_index(store.records.as_ref(), Index::State, index::OPEN_JOBS, None, usize::MAX, |_: &Job| true)
            .await?;
    Ok(all.into_iter().map(|kept| kept.value).collect())
}

/// Which job a request made, so that the same request makes no second one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    pub job: JobId,
    /// What was asked, to refuse the same key for something else.
    pub fingerprint: String,
    pub expires: jiff::Timestamp,
}

pub async fn find_idempotency(store: &Store, key: &Key) -> Result<Option<Versioned<Idempotency>>, Fault> {
    store.records.get(key).await?.as_ref().map(decode).transpose()
}

pub fn idempotency_draft(key: Key, record: &Idempotency) -> Result<Draft, Fault> {
    Ok(Draft { expires: Some(record.expires), ..Draft::new(key, encode(record)?) })
}

/// A tenant's jobs that `wanted` holds for, newest first.
pub async fn list_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Job) -> bool,
) -> Result<ListPage<Job>, Fault> {
    records::list_page(
        store.records.as_ref(),
        Index::Tenant,
        &index::jobs(tenant),
        after,
        true,
        limit,
        wanted,
    )
    .await
}
