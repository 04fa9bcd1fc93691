//! Dead letters: what was given up, why, and what can still be done about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Actor, Aggregate, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, DeadLetterId, EventId, JobId, PageNumber, Priority, TenantId},
    job::{StepCode, StepError, jobs},
    keys::{index, record},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Key, When, Written},
    },
    records::{self, BATCH_SIZE, ListPage, Versioned, decode, encode, read_index},
};

/// What a dead letter is about.
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
    /// A message to the tenant about a job's end.
    Webhook {
        job: JobId,
        delivery: String,
    },
    /// A message that nobody could read.
    Message,
}

impl Subject {
    pub fn job(&self) -> Option<&JobId> {
        match self {
            Self::Job { job } | Self::Page { job, .. } | Self::Webhook { job, .. } => Some(job),
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
    /// Deliveries before it was given up.
    pub receive_count: u32,
    /// Which redrive_count of its message died: 0 the first, then one per redrive.
    #[serde(default)]
    pub redrive_count: u32,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub correlation_id: CorrelationId,
    pub priority: Priority,
    /// The message as it was, to be sent again. Holds document text: never logged or listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last sent back to work; a redriven letter is out of the queue of the dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redriven_at: Option<Timestamp>,
    /// Set when the queue's own tools sent the message back, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revived: Option<Revived>,
    #[serde(default)]
    pub purged: bool,
    #[serde(default)]
    pub head: Head,
}

impl DeadLetter {
    /// Somebody has to do something about it.
    pub fn waits(&self) -> bool {
        self.redriven_at.is_none() && !self.purged
    }
}

/// What a message that came back unchanged stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    pub redrive_count: u32,
    pub deadline: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum DeadLetterEvent {
    #[serde(rename = "dlq.added")]
    Added { subject: Subject, reason: String, receive_count: u32 },
    #[serde(rename = "dlq.redriven")]
    Redriven { by: String },
    #[serde(rename = "dlq.purged")]
    Purged { by: String },
}

/// A job has one letter for each of its runs that died.
pub fn job_dead_letter_id(job: &JobId, redrives: u32) -> DeadLetterId {
    DeadLetterId::new(format!("{job}-{redrives}"))
}

/// A page has one letter, however often it dies.
pub fn page_dead_letter_id(job: &JobId, page: PageNumber) -> DeadLetterId {
    DeadLetterId::new(format!("{job}-p{page}"))
}

/// Writes the letter after `event`; false when somebody else changed it first.
pub async fn save(
    store: &Store,
    before: Option<&Versioned<DeadLetter>>,
    letter: DeadLetter,
    event: DeadLetterEvent,
) -> Result<bool, Fault> {
    let changes = moves(store, before, letter, event).await?;
    let written = store.write(changes).await?;
    Ok(written == Written::Applied)
}

/// The writes that make the letter so, for somebody who writes more with them.
pub async fn moves(
    store: &Store,
    before: Option<&Versioned<DeadLetter>>,
    mut letter: DeadLetter,
    event: DeadLetterEvent,
) -> Result<Vec<Change>, Fault> {
    let trace = match letter.subject.job() {
        Some(job) => jobs::find(store, job).await?.map(|kept| kept.value.trace()),
        None => None,
    };
    let metadata = Metadata {
        user_id: None,
        tenant: letter.tenant.clone(),
        source: Actor::Worker.to_string(),
        environment: store.environment.clone(),
        trace_id: trace.map(|trace| trace.trace_id()).unwrap_or_default(),
        span_id: trace.map(|trace| trace.span_id()).unwrap_or_default(),
        priority: Priority::High,
    };
    let (stored, head) = letter.head.append(
        Aggregate::DeadLetter(letter.id.clone()),
        EventId::new(store.ids.fresh()),
        &event,
        store.clock.now(),
        letter.correlation_id.clone(),
        metadata,
    );
    letter.head = head;
    let sort = format!("{:.3}#{}", letter.last_at, letter.id);
    let entry = |partition: String| letter.waits().then(|| IndexEntry::new(partition, sort.clone()));
    let draft = Draft {
        tenant_index: entry(index::dead_letters(&letter.tenant)),
        state_index: entry(index::DEAD_LETTERS.to_owned()),
        ..Draft::new(record::dead_letter(&letter.id), encode(&letter)?)
    };
    let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
    Ok(vec![Change::Put { draft, when }, trail::append(store, &stored)?])
}

pub async fn find(store: &Store, id: &DeadLetterId) -> Result<Option<Versioned<DeadLetter>>, Fault> {
    store.records.get(&record::dead_letter(id)).await?.as_ref().map(decode).transpose()
}

/// Those of these letters that there are.
pub async fn find_many(store: &Store, ids: &[DeadLetterId]) -> Result<Vec<DeadLetter>, Fault> {
    let keys: Vec<Key> = ids.iter().map(record::dead_letter).collect();
    let found = store.records.get_many(&keys).await?;
    found.iter().flatten().map(|item| Ok(decode(item)?.value)).collect()
}

/// How many letters of all tenants wait for somebody, counted up to `most`.
pub async fn count_waiting(store: &Store, most: usize) -> Result<usize, Fault> {
    count(store, Index::State, index::DEAD_LETTERS, most).await
}

/// The same of one tenant.
pub async fn count_waiting_of(store: &Store, tenant: &TenantId, most: usize) -> Result<usize, Fault> {
    count(store, Index::Tenant, &index::dead_letters(tenant), most).await
}

async fn count(store: &Store, index: Index, partition: &str, most: usize) -> Result<usize, Fault> {
    let (mut count, mut after) = (0, None);
    while count < most {
        let at_once = (most - count).min(BATCH_SIZE);
        let listing = store.records.list_index(index, partition, after.as_deref(), false, at_once).await?;
        count += listing.items.len();
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok(count)
}

/// The letters of all tenants that wait for somebody, oldest first.
pub async fn waiting(store: &Store, limit: usize) -> Result<Vec<Versioned<DeadLetter>>, Fault> {
    read_index(store.records.as_ref(), Index::State, index::DEAD_LETTERS, None, limit, |_| true).await
}

/// The dead letters that wait for somebody of this tenant, oldest first.
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
