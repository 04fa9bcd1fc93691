//! The dead letter, and the store of dead letters.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Actor, Aggregate, DomainEvent, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, DeadLetterId, EventId, JobId, PageNumber, Priority, TenantId},
    job::{StepCode, StepError, jobs},
    keys::{index, record},
    notices::{self, NewNotice},
    ports::{
        Fault,
        notifier::NoticeKind,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
    records::{self, BATCH_SIZE, ListPage, Versioned, decode, encode, read_index},
    time::after,
};

/// The thing that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    Job {
        job: JobId,
    },
    Page {
        job: JobId,
        page: PageNumber,
    },
    /// A message to a tenant's webhook about an event, of a job in most cases.
    Webhook {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        delivery: String,
    },
    /// A message that could not be parsed.
    Message,
}

impl Subject {
    pub fn job(&self) -> Option<&JobId> {
        match self {
            Self::Job { job } | Self::Page { job, .. } => Some(job),
            Self::Webhook { job, .. } => job.as_ref(),
            Self::Message => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub id: DeadLetterId,
    pub tenant: TenantId,
    pub subject: Subject,
    pub reason: String,
    /// Deliveries until it was given up.
    #[serde(alias = "attempts")]
    pub receive_count: u32,
    /// The message's redrive count when it was given up: 0 at first, one more with each redrive.
    #[serde(default, alias = "sending")]
    pub redrive_count: u32,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub correlation_id: CorrelationId,
    pub priority: Priority,
    /// The body of the message, for a redrive. Contains document text: never log or list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last redriven; a redriven dead letter is no longer listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redriven_at: Option<Timestamp>,
    /// Set if the message was redriven with the queue's own tools, which resend it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revived: Option<Revived>,
    #[serde(default)]
    pub purged: bool,
    #[serde(default)]
    pub head: Head,
}

impl DeadLetter {
    /// It waits for a person to redrive or purge it.
    pub fn is_waiting(&self) -> bool {
        self.redriven_at.is_none() && !self.purged
    }
}

/// The values that replace those of a message that the queue's own tools resent unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    #[serde(alias = "sending")]
    pub redrive_count: u32,
    pub deadline: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum DeadLetterEvent {
    #[serde(rename = "dlq.added")]
    Added {
        subject: Subject,
        reason: String,
        #[serde(alias = "attempts")]
        receive_count: u32,
        /// Not in events of version 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redrive_count: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<Priority>,
    },
    #[serde(rename = "dlq.redriven")]
    Redriven {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revived: Option<Revived>,
    },
    #[serde(rename = "dlq.purged")]
    Purged { by: String },
}

impl DomainEvent for DeadLetterEvent {
    fn priority(&self) -> Option<Priority> {
        matches!(self, Self::Added { .. }).then_some(Priority::Critical)
    }
}

/// A job has one dead letter for each of its failed runs.
pub fn job_dead_letter_id(job: &JobId, redrives: u32) -> DeadLetterId {
    DeadLetterId::new(format!("{job}-{redrives}"))
}

/// A page has one dead letter, however often it is given up.
pub fn page_dead_letter_id(job: &JobId, page: PageNumber) -> DeadLetterId {
    DeadLetterId::new(format!("{job}-p{page}"))
}

/// The job whose dead letter, or whose page's, has this id.
pub fn job_of(id: &DeadLetterId) -> Option<JobId> {
    let (job, number) = id.as_str().rsplit_once('-')?;
    let digits = number.strip_prefix('p').unwrap_or(number);
    let is_number = (1..=10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| JobId::new(job))
}

/// Stores the dead letter and `event`; false if another process changed it in between.
pub async fn save(
    store: &Store,
    before: Option<&Versioned<DeadLetter>>,
    dead_letter: DeadLetter,
    event: DeadLetterEvent,
) -> Result<bool, Fault> {
    let changes = changes(store, before, dead_letter, event).await?;
    let written = store.write(changes).await?;
    Ok(written == Written::Applied)
}

/// The writes that store the dead letter and `event`, for a caller that stores them with changes of its own.
pub async fn changes(
    store: &Store,
    before: Option<&Versioned<DeadLetter>>,
    mut dead_letter: DeadLetter,
    event: DeadLetterEvent,
) -> Result<Vec<Change>, Fault> {
    let trace = match dead_letter.subject.job() {
        Some(job) => jobs::find(store, job).await?.map(|job| job.value.trace()),
        None => None,
    };
    let metadata = Metadata {
        user_id: None,
        tenant: dead_letter.tenant.clone(),
        source: Actor::Worker.to_string(),
        environment: store.environment.clone(),
        trace_id: trace.map(|trace| trace.trace_id()).unwrap_or_default(),
        span_id: trace.map(|trace| trace.span_id()).unwrap_or_default(),
        priority: Priority::High,
    };
    let (stored, head) = dead_letter.head.append(
        Aggregate::DeadLetter(dead_letter.id.clone()),
        EventId::new(store.ids.fresh()),
        &event,
        store.clock.now(),
        dead_letter.correlation_id.clone(),
        metadata,
    );
    // Its times are those of its events.
    match &event {
        DeadLetterEvent::Added { .. } => {
            if head.sequence == 1 {
                dead_letter.first_at = stored.timestamp;
            }
            dead_letter.last_at = stored.timestamp;
        }
        DeadLetterEvent::Redriven { .. } => dead_letter.redriven_at = Some(stored.timestamp),
        DeadLetterEvent::Purged { .. } => {}
    }
    dead_letter.head = head;
    let sort = index::by_time(dead_letter.last_at, &dead_letter.id);
    let entry =
        |partition: String| dead_letter.is_waiting().then(|| IndexEntry::new(partition, sort.clone()));
    let draft = Draft {
        tenant_index: entry(index::dead_letters(&dead_letter.tenant)),
        state_index: entry(index::DEAD_LETTERS.to_owned()),
        ..Draft::new(record::dead_letter(&dead_letter.id), encode(&dead_letter)?)
    };
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    let mut changes = vec![Change::Put { draft, when }, trail::append(store, &stored)?];
    if let DeadLetterEvent::Added { reason, .. } = &event {
        changes.push(notices::change(store, &notice(&dead_letter, reason))?);
    }
    Ok(changes)
}

fn notice(dead_letter: &DeadLetter, reason: &str) -> NewNotice {
    let id = &dead_letter.id;
    NewNotice {
        tenant: dead_letter.tenant.clone(),
        kind: NoticeKind::DeadLetter,
        topic: String::new(),
        about: Some(id.to_string()),
        subject: format!("Everypage gave up on {id}"),
        body: format!("{reason}\nShow it: everypage dlq show {id}\nRedrive it: everypage dlq redrive {id}"),
    }
}

pub async fn find(store: &Store, id: &DeadLetterId) -> Result<Option<Versioned<DeadLetter>>, Fault> {
    store.records.get(&record::dead_letter(id)).await?.as_ref().map(decode).transpose()
}

/// The existing dead letters among `ids`.
pub async fn find_many(store: &Store, ids: &[DeadLetterId]) -> Result<Vec<DeadLetter>, Fault> {
    let keys: Vec<Key> = ids.iter().map(record::dead_letter).collect();
    let found = store.records.get_many(&keys).await?;
    found.iter().flatten().map(|item| Ok(decode(item)?.value)).collect()
}

/// Counts the waiting dead letters of all tenants, up to `limit`.
pub async fn count_waiting(store: &Store, limit: usize) -> Result<usize, Fault> {
    count(store, Index::State, index::DEAD_LETTERS, limit).await
}

/// Counts the waiting dead letters of one tenant, up to `limit`.
pub async fn count_waiting_of(store: &Store, tenant: &TenantId, limit: usize) -> Result<usize, Fault> {
    count(store, Index::Tenant, &index::dead_letters(tenant), limit).await
}

async fn count(store: &Store, index: Index, partition: &str, limit: usize) -> Result<usize, Fault> {
    let (mut count, mut after) = (0, None);
    while count < limit {
        let batch = (limit - count).min(BATCH_SIZE);
        let listing = store.records.list_index(index, partition, after.as_deref(), false, batch).await?;
        count += listing.items.len();
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok(count)
}

/// The waiting dead letters of all tenants, oldest first.
pub async fn waiting(store: &Store, limit: usize) -> Result<Vec<Versioned<DeadLetter>>, Fault> {
    read_index(store.records.as_ref(), Index::State, index::DEAD_LETTERS, None, limit, |_| true).await
}

/// Up to `limit` dead letters of unreadable messages that have been waiting for `time`.
pub async fn old_unreadable(store: &Store, time: Duration, limit: usize) -> Result<Vec<DeadLetter>, Fault> {
    let now = store.clock.now();
    let (mut found, mut position): (_, Option<String>) = (Vec::new(), None);
    loop {
        let partition = index::DEAD_LETTERS;
        let listing =
            store.records.list_index(Index::State, partition, position.as_deref(), false, BATCH_SIZE).await?;
        for item in &listing.items {
            let dead_letter = decode::<DeadLetter>(item)?.value;
            if after(dead_letter.last_at, time) > now || found.len() == limit {
                return Ok(found);
            }
            if dead_letter.subject == Subject::Message {
                found.push(dead_letter);
            }
        }
        match listing.next {
            Some(next) => position = Some(next),
            None => return Ok(found),
        }
    }
}

/// A page of the waiting dead letters of one tenant, oldest first.
pub async fn list_page(
    store: &Store,
    tenant: &TenantId,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<DeadLetter>, Fault> {
    records::list_page(
        store.records.as_ref(),
        Index::Tenant,
        &index::dead_letters(tenant),
        after,
        false,
        limit,
        |_| true,
    )
    .await
}

pub async fn load(store: &Store, id: &DeadLetterId) -> Result<Versioned<DeadLetter>, StepError> {
    find(store, id).await?.ok_or_else(|| StepError::Broken {
        code: StepCode::UnknownDeadLetter,
        reason: format!("there is no dead letter {id}"),
    })
}
