//! The store of pages: claim, renew, release, settle.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Actor, Aggregate, Head},
    events::{Store, trail},
    ids::{EventId, JobId, PageNumber},
    invariants,
    job::Job,
    keys::{blob, record},
    lease::{Claimable, Lease, claimable},
    ports::{
        Fault,
        blobs::Blobs,
        records::{Change, Draft, Key, When, Written},
    },
    read::{
        countdowns::{self, Removal},
        outcome::{CallResult, ModelCall, PageEvent, Settlement, Text, limit_calls},
        waiting::Waiting,
    },
    records::{Versioned, decode, encode, read_all},
};

/// Text up to this size is stored in the page's record, longer text in a blob.
pub const MAX_INLINE_TEXT: usize = 100 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub job: JobId,
    pub page: PageNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Settlement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// The message that the lease is held for. While it is, other messages of the page are copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageRef>,
    /// Calls of deliveries that led to no settlement; they become part of the next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "tried")]
    pub earlier_calls: Vec<ModelCall>,
    /// Rounds of all deliveries, and when the first one began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_round_at: Option<Timestamp>,
    /// Set while the page waits for its next round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The redrive that the settlement belongs to; 0 until an operator sends it again.
    #[serde(default, alias = "attempt")]
    pub redrive_count: u32,
    #[serde(default)]
    pub head: Head,
}

/// A message of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRef {
    pub id: String,
    pub redrive_count: u32,
}

impl MessageRef {
    /// Whether `other` is another message that says the same.
    pub fn is_copied_by(&self, other: &MessageRef) -> bool {
        self.id != other.id && self.redrive_count == other.redrive_count
    }
}

impl Page {
    /// Whether nothing is left to do for a message with this `redrive_count`.
    pub fn answers(&self, redrive_count: u32) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.is_ai() || self.redrive_count >= redrive_count)
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The answer to a worker that wants a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The version in hand is the fencing token of every later write.
    Granted(Box<Versioned<Page>>),
    Busy {
        until: Timestamp,
        /// The message that the other worker has the page for.
        message: Option<MessageRef>,
    },
    AlreadyDone,
}

/// Of any number of simultaneous callers at most one is granted a page.
pub async fn claim(
    store: &Store,
    job: &JobId,
    page: PageNumber,
    redrive_count: u32,
    message: Option<MessageRef>,
    holder: &str,
    time: Duration,
) -> Result<Claim, Fault> {
    let key = record::page(job, page);
    let fresh = Page {
        job: job.clone(),
        page,
        lease: None,
        outcome: None,
        text: None,
        message: None,
        earlier_calls: vec![],
        rounds: 0,
        first_round_at: None,
        waiting: None,
        redrive_count: 0,
        head: Head::default(),
    };
    // Most pages were never claimed: try that first and save a read.
    let mut found: Option<Versioned<Page>> = None;
    loop {
        let now = store.clock.now();
        if let Some(page) = found.as_ref().map(|kept| &kept.value) {
            match claimable(page.answers(redrive_count), page.lease.as_ref(), now) {
                Claimable::Yes => {}
                Claimable::Busy { until } => {
                    return Ok(Claim::Busy { until, message: page.message.clone() });
                }
                Claimable::Done => return Ok(Claim::AlreadyDone),
            }
        }
        let when = found.as_ref().map_or(When::Absent, |kept| When::Version(kept.version));
        let value = Page {
            lease: Some(Lease::new(holder, now, time)),
            message: message.clone(),
            waiting: None,
            ..found.take().map_or_else(|| fresh.clone(), |kept| kept.value)
        };
        let change = Change::Put { draft: Draft::new(key.clone(), encode(&value)?), when };
        match store.write(vec![change]).await? {
            Written::Applied => {
                return Ok(Claim::Granted(Box::new(Versioned { value, version: when.next_version() })));
            }
            Written::Refused { existing: Some(item), .. } => found = Some(decode(&item)?),
            // Deleted in between; start over.
            Written::Refused { existing: None, .. } => found = None,
        }
    }
}

/// Another worker took the page over, and will settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLost;

/// Extends the lease of a claimed page by `time`.
pub async fn renew(
    store: &Store,
    held: &Versioned<Page>,
    holder: &str,
    time: Duration,
) -> Result<Result<Versioned<Page>, LeaseLost>, Fault> {
    let value = Page { lease: Some(Lease::new(holder, store.clock.now(), time)), ..held.value.clone() };
    let draft = Draft::new(record::page(&value.job, value.page), encode(&value)?);
    let change = Change::Put { draft, when: When::Version(held.version) };
    Ok(match store.write(vec![change]).await? {
        Written::Applied => Ok(Versioned { value, version: held.version + 1 }),
        Written::Refused { .. } => Err(LeaseLost),
    })
}

/// Releases a claimed page unchanged, so that its next delivery need not wait for the lease.
pub async fn release(store: &Store, held: &Versioned<Page>) -> Result<(), Fault> {
    release_after(store, held, vec![]).await
}

/// Releases a claimed page after calls that led to nothing but may have to be paid.
pub async fn release_after(
    store: &Store,
    held: &Versioned<Page>,
    calls: Vec<ModelCall>,
) -> Result<(), Fault> {
    write_released(store, held, held.value.clone(), calls).await
}

/// Releases a claimed page after a round that will be followed by another.
pub async fn release_to_wait(
    store: &Store,
    held: &Versioned<Page>,
    calls: Vec<ModelCall>,
    waiting: &Waiting,
    first_round_at: Timestamp,
) -> Result<(), Fault> {
    let value = Page {
        rounds: waiting.rounds,
        first_round_at: (waiting.rounds > 0).then_some(first_round_at),
        waiting: Some(waiting.clone()),
        ..held.value.clone()
    };
    write_released(store, held, value, calls).await
}

/// Renews until when, and why, a page waits that no worker has. Refused, without effect, if a worker takes it.
pub async fn wait_longer(store: &Store, page: &Versioned<Page>, waiting: &Waiting) -> Result<(), Fault> {
    let value = Page { waiting: Some(waiting.clone()), ..page.value.clone() };
    let draft = Draft::new(record::page(&value.job, value.page), encode(&value)?);
    store.write(vec![Change::Put { draft, when: When::Version(page.version) }]).await.map(drop)
}

async fn write_released(
    store: &Store,
    held: &Versioned<Page>,
    page: Page,
    calls: Vec<ModelCall>,
) -> Result<(), Fault> {
    let mut value = Page { lease: None, message: None, ..page };
    add_calls(&mut value, &calls);
    let draft = Draft::new(record::page(&value.job, value.page), encode(&value)?);
    let change = Change::Put { draft, when: When::Version(held.version) };
    match store.write(vec![change]).await? {
        Written::Applied => Ok(()),
        // Another worker has the page by now. The calls were made all the same.
        Written::Refused { .. } => record_calls(store, &value.job, value.page, &calls).await,
    }
}

fn add_calls(page: &mut Page, calls: &[ModelCall]) {
    let made = calls.iter().filter(|call| call.result != CallResult::BreakerOpen);
    page.earlier_calls.extend(made.cloned());
    limit_calls(&mut page.earlier_calls);
}

/// Model calls of a worker that had lost its page to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct UnclaimedCalls {
    page: PageNumber,
    calls: Vec<ModelCall>,
}

/// Records the calls of a worker that has lost the page: they may have to be paid. They have a record of
/// their own, because the page's is the claim of the worker that has it now.
pub async fn record_calls(
    store: &Store,
    job: &JobId,
    page: PageNumber,
    calls: &[ModelCall],
) -> Result<(), Fault> {
    let made = calls.iter().filter(|call| call.result != CallResult::BreakerOpen);
    let unclaimed = UnclaimedCalls { page, calls: made.cloned().collect() };
    if unclaimed.calls.is_empty() {
        return Ok(());
    }
    let key = record::unclaimed_calls(job, &store.ids.fresh());
    let draft = Draft::new(key, encode(&unclaimed)?);
    store.write(vec![Change::Put { draft, when: When::Absent }]).await.map(drop)
}

/// The calls of workers that had lost their pages, by page.
pub async fn unclaimed_calls(
    store: &Store,
    job: &JobId,
) -> Result<BTreeMap<PageNumber, Vec<ModelCall>>, Fault> {
    let all: Vec<Versioned<UnclaimedCalls>> =
        read_all(store.records.as_ref(), &record::job_partition(job), record::UNCLAIMED_CALLS).await?;
    let mut calls: BTreeMap<PageNumber, Vec<ModelCall>> = BTreeMap::new();
    for unclaimed in all {
        calls.entry(unclaimed.value.page).or_default().extend(unclaimed.value.calls);
    }
    Ok(calls)
}

/// Whether a page that was settled is the last of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    OnePage,
    LastPage,
}

/// Stores a page's outcome with its event and counts its range down, on condition that the claim still stands.
pub async fn settle(
    store: &Store,
    blobs: &dyn Blobs,
    job: &Job,
    held: &Versioned<Page>,
    redrive_count: u32,
    mut outcome: Settlement,
    text: Option<String>,
) -> Result<Result<Settled, LeaseLost>, Fault> {
    let page = held.value.page;
    // A redriven page keeps its earlier calls and their cost.
    outcome.prepend_calls(&held.value.earlier_calls);
    if let Some(earlier) = &held.value.outcome {
        outcome.merge_earlier(earlier);
    }
    let text = match text {
        Some(text) if text.len() > MAX_INLINE_TEXT => {
            let blob = blob::page_text(&job.id, page, &outcome.text_sha256);
            blobs.put_new(&blob, text.into_bytes()).await?;
            Some(Text::Blob(blob))
        }
        text => text.map(Text::Inline),
    };
    invariants::assert(|| super::invariants::read_once(held.value.outcome.as_ref(), &outcome));
    let aggregate = Aggregate::Page(job.id.clone(), page);
    let (event, head) = held.value.head.append(
        aggregate,
        EventId::new(store.ids.fresh()),
        &PageEvent::Settled(outcome.clone()),
        store.clock.now(),
        job.correlation_id.clone(),
        job.metadata(Actor::Worker, &store.environment),
    );
    let earlier_calls = vec![];
    let value = Page {
        lease: None,
        message: None,
        rounds: 0,
        first_round_at: None,
        outcome: Some(outcome),
        text,
        earlier_calls,
        redrive_count,
        head,
        ..held.value.clone()
    };
    let draft = Draft::new(record::page(&job.id, page), encode(&value)?);
    let own = [Change::Put { draft, when: When::Version(held.version) }, trail::append(store, &event)?];
    loop {
        let removal = countdowns::removal(store, job, &BTreeSet::from([page])).await?;
        let Removal { changes, completes } = removal.unwrap_or(Removal { changes: vec![], completes: false });
        match store.write(own.iter().cloned().chain(changes).collect()).await? {
            Written::Applied if completes => return Ok(Ok(Settled::LastPage)),
            Written::Applied => return Ok(Ok(Settled::OnePage)),
            // Another page of the range was settled in between.
            Written::Refused { index, .. } if index >= own.len() => {}
            Written::Refused { .. } => return Ok(Err(LeaseLost)),
        }
    }
}

pub async fn find(store: &Store, job: &JobId, page: PageNumber) -> Result<Option<Versioned<Page>>, Fault> {
    store.records.get(&record::page(job, page)).await?.as_ref().map(decode).transpose()
}

/// Every page of a job that a worker has touched.
pub async fn all(store: &Store, job: &JobId) -> Result<BTreeMap<PageNumber, Versioned<Page>>, Fault> {
    let all: Vec<Versioned<Page>> =
        read_all(store.records.as_ref(), &record::job_partition(job), record::PAGES).await?;
    Ok(all.into_iter().map(|kept| (kept.value.page, kept)).collect())
}

/// The pages among `numbers` that a worker has touched.
pub async fn some(
    store: &Store,
    job: &JobId,
    numbers: &[PageNumber],
) -> Result<BTreeMap<PageNumber, Page>, Fault> {
    let keys: Vec<Key> = numbers.iter().map(|page| record::page(job, *page)).collect();
    let items = store.records.get_many(&keys).await?;
    let pages = items.iter().flatten().map(|item| Ok(decode::<Page>(item)?.value));
    pages.map(|page| page.map(|page| (page.page, page))).collect()
}

/// The AI's text of a settled page.
pub async fn text(blobs: &dyn Blobs, page: &Page) -> Result<Option<String>, Fault> {
    match &page.text {
        None => Ok(None),
        Some(Text::Inline(text)) => Ok(Some(text.clone())),
        Some(Text::Blob(key)) => {
            let bytes = blobs.get(key).await?;
            Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

/// Expires every lease of a job that `node` holds, after that process died. They are not released: a lease that
/// was left shows that a worker died with the page.
pub async fn free_all_of(store: &Store, job: &JobId, node: &str) -> Result<(), Fault> {
    let prefix = format!("{node}/");
    for kept in all(store, job).await?.into_values() {
        if kept.value.lease.as_ref().is_some_and(|lease| lease.holder.starts_with(&prefix)) {
            let value = Page { lease: Some(Lease::expired()), message: None, ..kept.value };
            let draft = Draft::new(record::page(&value.job, value.page), encode(&value)?);
            // Refused if another worker has the page by now.
            store.write(vec![Change::Put { draft, when: When::Version(kept.version) }]).await?;
        }
    }
    Ok(())
}
