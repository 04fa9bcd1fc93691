//! Jobs: loaded, moved by events, listed.

use serde::{Deserialize, Serialize};

use crate::job::holds;
use crate::keys::{index, record};
use crate::records::{self, ListPage};
use crate::{
    app::App,
    billing::account::Refused,
    events::event::Aggregate,
    ids::{CorrelationId, EventId, JobId, TenantId},
    invariants,
    job::{Illegal, Job, JobEvent},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
    telemetry::{metrics, spans},
};
use crate::{
    billing::accounts::{self, AccountError},
    events::trail,
    job::passwords,
    records::{Kept, decode, encode, read_index},
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

pub async fn find(app: &App, id: &JobId) -> Result<Option<Kept<Job>>, Fault> {
    app.records.get(&record::job(id)).await?.as_ref().map(decode).transpose()
}

pub async fn load(app: &App, id: &JobId) -> Result<Kept<Job>, JobError> {
    find(app, id).await?.ok_or_else(|| JobError::Unknown(id.clone()))
}

/// Those of them that are there.
pub async fn find_many(app: &App, ids: impl Iterator<Item = JobId>) -> Result<Vec<Job>, Fault> {
    let keys: Vec<Key> = ids.map(|id| record::job(&id)).collect();
    let found = app.records.get_many(&keys).await?;
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
    app: &App,
    source: &str,
    before: Option<&Kept<Job>>,
    id: &JobId,
    correlation: &CorrelationId,
    events: &[JobEvent],
) -> Result<(Job, Vec<Change>), JobError> {
    let mut job = before.map(|kept| kept.value.clone());
    let mut changes = Vec::with_capacity(events.len() + 1);
    for event in events {
        let head = job.as_ref().map(|job| job.head.clone()).unwrap_or_default();
        let at = head.next_time(app.clock.now());
        let mut next = Job::apply(job.as_ref(), id, correlation, event, at)?;
        let metadata = next.metadata(source, &app.settings.environment);
        let event_id = EventId::new(app.ids.fresh());
        let (stored, head) =
            head.append(Aggregate::Job(id.clone()), event_id, event, at, correlation.clone(), metadata);
        changes.push(trail::append(app, &stored)?);
        next.head = head;
        job = Some(next);
    }
    let job = job.ok_or_else(|| JobError::Unknown(id.clone()))?;
    let published = before.and_then(|kept| kept.value.result.as_ref());
    invariants::assert(|| invariants::versions_count_up(published, job.result.as_ref()));
    let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
    changes.insert(0, Change::Put { draft: draft(&job)?, when });
    Ok((job, changes))
}

/// Reads the job, asks `decide` what should happen to it as it is now, and makes that so; asks
/// again when somebody else was faster. `decide` answering nothing leaves the job as it is.
pub async fn advance(
    app: &App,
    source: &str,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
) -> Result<Kept<Job>, JobError> {
    advance_with(app, source, id, decide, false).await
}

/// The same for a step that ends intake: the document's password goes with it, in one write.
pub async fn advance_and_forget(
    app: &App,
    source: &str,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
) -> Result<Kept<Job>, JobError> {
    advance_with(app, source, id, decide, true).await
}

async fn advance_with(
    app: &App,
    source: &str,
    id: &JobId,
    decide: impl Fn(&Job) -> Vec<JobEvent>,
    forget_secret: bool,
) -> Result<Kept<Job>, JobError> {
    loop {
        let kept = load(app, id).await?;
        let events = decide(&kept.value);
        if events.is_empty() {
            return Ok(kept);
        }
        let more = match forget_secret {
            true => passwords::forget(app, id).await?.into_iter().collect(),
            false => vec![],
        };
        if let Some(moved) = advance_once(app, source, &kept, &events, more).await? {
            return Ok(moved);
        }
    }
}

/// The same for somebody who has decided on the job as it was, and writes `more` with it; `None` when
/// somebody else was faster.
pub async fn advance_once(
    app: &App,
    source: &str,
    kept: &Kept<Job>,
    events: &[JobEvent],
    more: Vec<Change>,
) -> Result<Option<Kept<Job>>, JobError> {
    let (id, correlation) = (&kept.value.id, &kept.value.correlation_id);
    let (job, mut changes) = moves(app, source, Some(kept), id, correlation, events)?;
    let (credits, account) = holds::follow(app, source, &kept.value, &job, events).await?;
    changes.extend(account);
    changes.extend(more);
    if app.write(changes).await? != Written::Applied {
        return Ok(None);
    }
    metrics::job_moved(&kept.value, &job, events);
    metrics::credits_moved(&credits);
    spans::job_moved(app, &kept.value, &job);
    Ok(Some(Kept { value: job, version: kept.version + 1 }))
}

/// A tenant's jobs, newest first.
pub async fn list(app: &App, tenant: &TenantId, limit: usize) -> Result<Vec<Job>, Fault> {
    let partition = index::jobs(tenant);
    let listing = app.records.list_index(Index::Tenant, &partition, None, true, limit).await?;
    listing.items.iter().map(|item| Ok(decode(item)?.value)).collect()
}

/// Every job that has not ended, the nearest deadline first.
pub async fn open(app: &App) -> Result<Vec<Job>, Fault> {
    let all = read_index(app, Index::State, index::OPEN_JOBS, None, usize::MAX, |_: &Job| true).await?;
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

pub async fn find_idempotency(app: &App, key: &Key) -> Result<Option<Kept<Idempotency>>, Fault> {
    app.records.get(key).await?.as_ref().map(decode).transpose()
}

pub fn idempotency_draft(key: Key, record: &Idempotency) -> Result<Draft, Fault> {
    Ok(Draft { expires: Some(record.expires), ..Draft::new(key, encode(record)?) })
}

/// A tenant's jobs that `wanted` holds for, newest first.
pub async fn list_page(
    app: &App,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
    wanted: impl Fn(&Job) -> bool,
) -> Result<ListPage<Job>, Fault> {
    records::list_page(app, Index::Tenant, &index::jobs(tenant), after, true, limit, wanted).await
}
