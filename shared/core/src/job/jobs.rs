//! The store of jobs: load, list, and advance by events.

use serde::{Deserialize, Serialize};

use crate::{
    billing::{account::Refused, accounts::AccountError, telemetry as billing_telemetry},
    event::{Actor, Aggregate},
    events::{Store, trail},
    ids::{CorrelationId, EventId, JobId, TenantId},
    invariants,
    job::{Illegal, Job, JobEvent, approval, holds, passwords, telemetry as job_telemetry},
    keys::{index, record},
    notices,
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
    /// The tenant's account refused the change.
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

/// The existing jobs among `ids`.
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
            index::by_time(job.received_at, &job.id),
        )),
        state_index: match (open, job.finished_at) {
            (true, _) if job.is_waiting() => {
                let (level, place) = (index::level(job.priority()), job.place.unwrap_or_default());
                let sort = format!("{level}{place:015}#{}", index::by_time(job.received_at, &job.id));
                Some(IndexEntry::new(index::WAITING_JOBS, sort))
            }
            (true, _) => Some(IndexEntry::new(index::OPEN_JOBS, index::by_time(job.deadline, &job.id))),
            (false, Some(at)) => Some(IndexEntry::new(index::ENDED_JOBS, index::by_time(at, &job.id))),
            (false, None) => None,
        },
        ..Draft::new(record::job(&job.id), encode(job)?)
    })
}

/// The job after `events`, and the writes of its record and the new events.
///
/// The caller stores them in one transaction. An illegal event is an error.
pub fn changes(
    store: &Store,
    actor: Actor,
    before: Option<&Versioned<Job>>,
    id: &JobId,
    correlation: &CorrelationId,
    events: &[JobEvent],
) -> Result<(Job, Vec<Change>), JobError> {
    let mut job = before.map(|before| before.value.clone());
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
    let published = before.and_then(|before| before.value.result.as_ref());
    invariants::assert(|| super::invariants::versions_count_up(published, job.result.as_ref()));
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    changes.insert(0, Change::Put { draft: draft(&job)?, when });
    Ok((job, changes))
}

/// Lists a job that has ended, for retention; for jobs of version 0.1, which did not.
pub async fn list_as_ended(store: &Store, id: &JobId) -> Result<(), Fault> {
    while let Some(Versioned { value: job, version }) = find(store, id).await? {
        let put = Change::Put { draft: draft(&job)?, when: When::Version(version) };
        if job.content_removed_at.is_some() || store.write(vec![put]).await? == Written::Applied {
            break;
        }
    }
    Ok(())
}

/// Takes a job whose content is gone off the list of jobs that have ended.
pub async fn unlist(store: &Store, id: &JobId) -> Result<(), JobError> {
    loop {
        let Versioned { value: job, version } = load(store, id).await?;
        let draft = Draft { state_index: None, ..draft(&job)? };
        let put = Change::Put { draft, when: When::Version(version) };
        if job.content_removed_at.is_none() || store.write(vec![put]).await? == Written::Applied {
            return Ok(());
        }
    }
}

/// Loads the job and stores the events that `decide` returns for it; no events leave it unchanged.
///
/// If another process changed the job in between, `decide` is called again with the new state.
pub async fn advance(
    store: &Store,
    actor: Actor,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
) -> Result<Versioned<Job>, JobError> {
    advance_with(store, actor, id, decide, false).await
}

/// Like [`advance`], and deletes the document's password in the same transaction.
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
    delete_password: bool,
) -> Result<Versioned<Job>, JobError> {
    loop {
        let job = load(store, id).await?;
        let events = decide(&job.value);
        if events.is_empty() {
            return Ok(job);
        }
        let more = match delete_password {
            true => passwords::delete_change(store, id).await?.into_iter().collect(),
            false => vec![],
        };
        if let Some(advanced) = advance_once(store, actor, &job, &events, more).await? {
            return Ok(advanced);
        }
    }
}

/// Stores `events` of the job as it was loaded, and `more` in the same transaction; `None` if another
/// process changed the job in between.
pub async fn advance_once(
    store: &Store,
    actor: Actor,
    before: &Versioned<Job>,
    events: &[JobEvent],
    more: Vec<Change>,
) -> Result<Option<Versioned<Job>>, JobError> {
    let (id, correlation) = (&before.value.id, &before.value.correlation_id);
    let (job, mut changes) = changes(store, actor, Some(before), id, correlation, events)?;
    let (credits, account) = holds::account_changes(store, actor, &before.value, &job, events).await?;
    changes.extend(account);
    changes.extend(more);
    if let Some(notice) = approval::notice(&before.value, &job) {
        changes.push(notices::change(store, &notice)?);
    }
    if store.write(changes).await? != Written::Applied {
        return Ok(None);
    }
    job_telemetry::count_transition(&before.value, &job, events);
    billing_telemetry::credits_changed(&credits);
    job_telemetry::record_job_span(store, &before.value, &job);
    Ok(Some(Versioned { value: job, version: before.version + 1 }))
}

/// A tenant's jobs, newest first.
pub async fn list(store: &Store, tenant: &TenantId, limit: usize) -> Result<Vec<Job>, Fault> {
    let partition = index::jobs(tenant);
    let listing = store.records.list_index(Index::Tenant, &partition, None, true, limit).await?;
    listing.items.iter().map(|item| Ok(decode(item)?.value)).collect()
}

/// Every job that is admitted and not in a terminal state, by deadline.
pub async fn open(store: &Store) -> Result<Vec<Job>, Fault> {
    let all =
        read_index(store.records.as_ref(), Index::State, index::OPEN_JOBS, None, usize::MAX, |_: &Job| true)
            .await?;
    Ok(all.into_iter().map(|job| job.value).collect())
}

/// Up to `limit` jobs that have ended and still have content, in the order in which they ended.
pub async fn ended(store: &Store, limit: usize) -> Result<Vec<Job>, Fault> {
    let listing = store.records.list_index(Index::State, index::ENDED_JOBS, None, false, limit).await?;
    listing.items.iter().map(|item| Ok(decode(item)?.value)).collect()
}

/// The job that a request created, so that a repeated request creates no second one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    pub job: JobId,
    /// Hash of the request, to refuse the key for a different request.
    pub fingerprint: String,
    pub expires: jiff::Timestamp,
}

pub async fn find_idempotency(store: &Store, key: &Key) -> Result<Option<Versioned<Idempotency>>, Fault> {
    store.records.get(key).await?.as_ref().map(decode).transpose()
}

pub fn idempotency_draft(key: Key, record: &Idempotency) -> Result<Draft, Fault> {
    Ok(Draft { expires: Some(record.expires), ..Draft::new(key, encode(record)?) })
}

/// A page of a tenant's jobs for which `wanted` is true, newest first.
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
