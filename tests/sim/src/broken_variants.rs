//! Variants of Everypage that lack one guarantee each. Every one must be caught: a suite that can't fail
//! proves nothing.
//!
//! All of Everypage's safety comes from what it requires of its ports (conditional writes, leases, the
//! outbox, visibility), so a broken variant is a port that does not do all of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    document::PageReading,
    ids::{JobId, PageNumber, Priority},
    job,
    keys::{self, record},
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        bus::Bus,
        clock::Clock,
        flow::{Flow, FlowStart},
        payments::{Charge, PaymentError, Payments, Refund},
        pdf::{Pdf, PdfError, PdfSource, ReadOptions},
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Change, Draft, Index, Item, Key, Listing, Records, When, Written},
        vision::{Answer, PageRequest, Price, Vision, VisionError},
    },
    providers::target::Target,
};
use jiff::Timestamp;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenVariant {
    NoFencing,
    UnconditionalFinalize,
    UnconditionalSlots,
    UnleasedSlots,
    PublishedBeforeStored,
    UnpublishedEvents,
    BreakerPerProcess,
    ResultsOverwritten,
    MessagesDeletedOnReceive,
    DonePagesReclaimable,
    LongTimersNeverFire,
    TrailRewritten,
    PasswordsKept,
    PagesSwapped,
    NoRetries,
    SlotsNeverReleased,
    HalfOpenLetsAllThrough,
    FallbackTextLost,
    UnconditionalAccounts,
    UnconditionalBudgets,
    ReservationsKept,
    PaymentsWithoutKeys,
    GivesUpEarly,
    WaitsPastDeadline,
    SlotsPerProcess,
    HedgesPerProcess,
    LoserSettles,
    LostPageCallsDropped,
    WaitingCallsDropped,
    RoundCallsDropped,
    UnleasedProbes,
    VisibilityNotExtended,
    LatePagesLeft,
    NoticesLost,
    PausesIgnored,
    CallsRecordedTwice,
    SeatsKept,
    LineNotListed,
    OthersFailuresKept,
}

impl BrokenVariant {
    pub const ALL: [Self; 39] = [
        Self::NoFencing,
        Self::UnconditionalFinalize,
        Self::UnconditionalSlots,
        Self::UnleasedSlots,
        Self::PublishedBeforeStored,
        Self::UnpublishedEvents,
        Self::BreakerPerProcess,
        Self::ResultsOverwritten,
        Self::MessagesDeletedOnReceive,
        Self::DonePagesReclaimable,
        Self::LongTimersNeverFire,
        Self::TrailRewritten,
        Self::PasswordsKept,
        Self::PagesSwapped,
        Self::NoRetries,
        Self::SlotsNeverReleased,
        Self::HalfOpenLetsAllThrough,
        Self::FallbackTextLost,
        Self::UnconditionalAccounts,
        Self::UnconditionalBudgets,
        Self::ReservationsKept,
        Self::PaymentsWithoutKeys,
        Self::GivesUpEarly,
        Self::WaitsPastDeadline,
        Self::SlotsPerProcess,
        Self::HedgesPerProcess,
        Self::LoserSettles,
        Self::LostPageCallsDropped,
        Self::WaitingCallsDropped,
        Self::RoundCallsDropped,
        Self::UnleasedProbes,
        Self::VisibilityNotExtended,
        Self::LatePagesLeft,
        Self::NoticesLost,
        Self::PausesIgnored,
        Self::CallsRecordedTwice,
        Self::SeatsKept,
        Self::LineNotListed,
        Self::OthersFailuresKept,
    ];

    pub fn description(self) -> &'static str {
        match self {
            Self::NoFencing => "a worker that lost its page may still settle it",
            Self::UnconditionalFinalize => "a job is written without checking its version",
            Self::UnconditionalSlots => "an in-flight slot is taken without checking that it is free",
            Self::UnleasedSlots => "the lease of an in-flight slot never expires",
            Self::PublishedBeforeStored => "events are published before they are stored",
            Self::UnpublishedEvents => "events are stored but not marked for publishing",
            Self::BreakerPerProcess => "each process has its own breakers",
            Self::ResultsOverwritten => "a stored result version can be overwritten",
            Self::MessagesDeletedOnReceive => "a message is deleted when it is received",
            Self::DonePagesReclaimable => "a page that is done may be claimed again",
            Self::LongTimersNeverFire => "timers of more than ten seconds never fire",
            Self::TrailRewritten => "events are changed before they are stored",
            Self::PasswordsKept => "passwords are not deleted",
            Self::PagesSwapped => "the texts of two pages are swapped",
            Self::NoRetries => "storage calls are not retried",
            Self::SlotsNeverReleased => "an in-flight slot is never released",
            Self::HalfOpenLetsAllThrough => "a half-open breaker lets every call through",
            Self::FallbackTextLost => "the fallback text of pages is stored empty",
            Self::UnconditionalAccounts => "an account is written without checking its version",
            Self::UnconditionalBudgets => "what is spent of a budget is written without checking its version",
            Self::ReservationsKept => "what a call reserved of a budget is not given back when it ends",
            Self::PaymentsWithoutKeys => "a repeated charge is taken twice",
            Self::GivesUpEarly => "a round without the page's text is the last one",
            Self::WaitsPastDeadline => "a page that waits has its next round after the deadline",
            Self::SlotsPerProcess => "each process has all in-flight slots of a model",
            Self::HedgesPerProcess => "each process doubles as many calls as all may together",
            Self::LoserSettles => "the later answer of a doubled call settles the page",
            Self::LostPageCallsDropped => "the calls of a worker that lost its page are not recorded",
            Self::WaitingCallsDropped => "a result leaves out the calls of pages that wait",
            Self::RoundCallsDropped => "the calls of a round that led to nothing are not recorded",
            Self::UnleasedProbes => "a probe takes no lease on its breaker",
            Self::VisibilityNotExtended => "a worker never extends the visibility of its message",
            Self::LatePagesLeft => "pages that are read late are not published",
            Self::NoticesLost => "notices are not stored with what they are about",
            Self::PausesIgnored => "a pause of a model is not read",
            Self::CallsRecordedTwice => "the calls of a page's first round are recorded twice",
            Self::SeatsKept => "the seat of a job that has ended is not given back",
            Self::LineNotListed => "documents that wait for room are not found",
            Self::OthersFailuresKept => "a success resets only the failures that its own process counted",
        }
    }
}

impl std::str::FromStr for BrokenVariant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|variant| format!("{variant:?}")).join(", ");
        Self::ALL
            .into_iter()
            .find(|variant| format!("{variant:?}") == text)
            .ok_or_else(|| format!("unknown broken variant {text:?} (known: {})", known()))
    }
}

/// Longer than any job may take.
const MAX_DEADLINE: Duration = Duration::from_secs(600);

/// A port without the guarantee that its variant lacks.
pub struct BrokenPort<P: ?Sized> {
    pub inner: Arc<P>,
    pub variant: BrokenVariant,
    pub process: usize,
    pub bus: Arc<dyn Bus>,
    pub calls: AtomicU64,
    pub open_calls: OpenCalls,
    /// Breakers whose failures this process has counted.
    pub failed: Mutex<BTreeSet<String>>,
    pub clock: Arc<dyn Clock>,
}

impl BrokenPort<dyn Records> {
    /// The key under which this process stores the record.
    fn own(&self, key: &Key) -> Key {
        if self.variant == BrokenVariant::BreakerPerProcess && key.partition == "breaker" {
            return Key::new(key.partition.clone(), format!("{}@{}", key.sort, self.process));
        }
        if self.variant == BrokenVariant::SlotsPerProcess && key.partition.starts_with(record::SLOTS) {
            return Key::new(format!("{}@{}", key.partition, self.process), key.sort.clone());
        }
        if self.variant == BrokenVariant::HedgesPerProcess && key.partition == record::HEDGES {
            return Key::new(format!("{}@{}", key.partition, self.process), key.sort.clone());
        }
        key.clone()
    }

    fn is_unconditional(&self, key: &Key) -> bool {
        match self.variant {
            BrokenVariant::NoFencing => key.sort.starts_with("page#") || key.sort.starts_with("pagelog#"),
            BrokenVariant::UnconditionalFinalize => {
                key.sort == "job" || (key.partition.starts_with("job#") && key.sort.starts_with("event#"))
            }
            BrokenVariant::UnconditionalSlots => key.partition.starts_with("slots#"),
            BrokenVariant::UnconditionalAccounts => key.partition.starts_with("account#"),
            BrokenVariant::UnconditionalBudgets => key.sort.starts_with("expenses"),
            _ => false,
        }
    }

    fn distort(&self, mut draft: Draft) -> Draft {
        draft.key = self.own(&draft.key);
        let edit = |draft: &mut Draft, edit: &dyn Fn(&mut Value)| {
            let mut body: Value = serde_json::from_str(&draft.body).unwrap_or_default();
            edit(&mut body);
            draft.body = body.to_string();
        };
        match self.variant {
            BrokenVariant::UnleasedSlots if draft.key.partition.starts_with("slots#") => {
                edit(&mut draft, &|body| {
                    for share in body["shares"].as_array_mut().into_iter().flatten() {
                        share["until"] = "9999-01-01T00:00:00Z".into();
                    }
                });
            }
            BrokenVariant::UnpublishedEvents if draft.key.sort.starts_with("pagelog#") => {
                draft.state_index = None
            }
            BrokenVariant::RoundCallsDropped if draft.key.sort.starts_with(record::PAGES) => {
                edit(&mut draft, &|body| {
                    if let Some(page) = body.as_object_mut() {
                        page.remove("earlier_calls");
                    }
                });
            }
            BrokenVariant::CallsRecordedTwice if draft.key.sort.starts_with(record::PAGES) => {
                edit(&mut draft, &|body| {
                    if let Some(calls) = body.get_mut("earlier_calls").and_then(Value::as_array_mut)
                        && calls.len() == 1
                    {
                        calls.push(calls[0].clone());
                    }
                });
            }
            BrokenVariant::TrailRewritten if draft.key.sort.starts_with("event#0000000002") => {
                edit(&mut draft, &|body| body["correlation_id"] = "another".into());
            }
            _ => {}
        }
        draft
    }

    async fn change(&self, change: &Change) -> Result<Option<Change>, Fault> {
        let unconditional = self.is_unconditional(change.key());
        let existing = if unconditional { self.inner.get(&self.own(change.key())).await? } else { None };
        Ok(match change {
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::SlotsNeverReleased && is_release(draft) =>
            {
                None
            }
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::ReservationsKept
                    && draft.key.sort.starts_with("expenses")
                    && self.has_fewer("reservations", draft).await? =>
            {
                None
            }
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::SeatsKept
                    && draft.key.partition == record::SEATS
                    && self.has_fewer("jobs", draft).await? =>
            {
                None
            }
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::OthersFailuresKept && self.resets_others(draft) =>
            {
                None
            }
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::LostPageCallsDropped
                    && draft.key.sort.starts_with(record::UNCLAIMED_CALLS) =>
            {
                None
            }
            Change::Put { draft, .. }
                if self.variant == BrokenVariant::NoticesLost && draft.key.sort.starts_with("notice#") =>
            {
                None
            }
            Change::Put { draft, when } => {
                let now = existing.map_or(When::Absent, |item| When::Version(item.version));
                let when = if unconditional { now } else { *when };
                Some(Change::Put { draft: self.distort(draft.clone()), when })
            }
            Change::Delete { key, .. }
                if self.variant == BrokenVariant::PasswordsKept && key.sort == "secret" =>
            {
                None
            }
            Change::Delete { key, version } => match (unconditional, existing) {
                (false, _) => Some(Change::Delete { key: self.own(key), version: *version }),
                (true, Some(item)) => Some(Change::Delete { key: key.clone(), version: item.version }),
                (true, None) => None,
            },
        })
    }

    /// Whether the draft is a closed breaker without failures, of which this process has counted none.
    fn resets_others(&self, draft: &Draft) -> bool {
        if draft.key.partition != record::BREAKERS {
            return false;
        }
        let body: Value = serde_json::from_str(&draft.body).unwrap_or_default();
        let breaker = &body["breaker"];
        if breaker["failures"].as_u64() > Some(0) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(draft.key.sort.clone());
            return false;
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).remove(&draft.key.sort);
        // One that closes after a probe has no cause.
        !failed && breaker["state"] == "closed" && breaker["cause"].is_string()
    }

    /// Whether a list of the draft is shorter than that of the stored record.
    async fn has_fewer(&self, list: &str, draft: &Draft) -> Result<bool, Fault> {
        let count = |body: &str| {
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            body[list].as_array().map_or(0, Vec::len)
        };
        let stored = self.inner.get(&draft.key).await?;
        Ok(stored.is_some_and(|item| count(&item.draft.body) > count(&draft.body)))
    }

    /// The record of a late page's publication, as if another worker published forever.
    fn taken(&self, key: &Key, item: Option<Item>) -> Option<Item> {
        let draft = || Draft::new(key.clone(), r#"{"registered":0}"#.into());
        let mut item = item.unwrap_or_else(|| Item { draft: draft(), version: 0, stamp: String::new() });
        let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
        body["job"] = key.partition.trim_start_matches("job#").into();
        body["publisher"] = serde_json::json!({ "holder": "another", "until": "9999-01-01T00:00:00Z" });
        item.draft.body = body.to_string();
        Some(item)
    }

    fn seen(&self, item: Option<Item>) -> Option<Item> {
        let mut item = item?;
        if self.variant == BrokenVariant::HalfOpenLetsAllThrough && item.draft.key.partition == "breaker" {
            item.draft.body = item.draft.body.replace("\"half_open\"", "\"closed\"");
        }
        if self.variant == BrokenVariant::PausesIgnored && item.draft.key.partition == record::PACES {
            let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
            if let Some(pace) = body.as_object_mut() {
                pace.remove("paused_until");
                pace.remove("used_up_until");
            }
            item.draft.body = body.to_string();
        }
        if self.variant == BrokenVariant::UnleasedProbes && item.draft.key.partition == record::BREAKERS {
            let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
            body["breaker"]["probe"] = Value::Null;
            item.draft.body = body.to_string();
        }
        Some(item)
    }
}

/// Whether the draft is a group of slots without a holder.
fn is_release(draft: &Draft) -> bool {
    draft.key.partition.starts_with("slots#") && !draft.body.contains("\"holder\"")
}

#[async_trait]
impl Records for BrokenPort<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        let item = self.inner.get(&self.own(key)).await?;
        if self.variant == BrokenVariant::LatePagesLeft && key.sort == record::HEALING {
            return Ok(self.taken(key, item));
        }
        Ok(self.seen(item))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        let own: Vec<Key> = keys.iter().map(|key| self.own(key)).collect();
        Ok(self.inner.get_many(&own).await?.into_iter().map(|item| self.seen(item)).collect())
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let mut listing = self.inner.list(partition, prefix, after, limit).await?;
        if self.variant == BrokenVariant::WaitingCallsDropped && prefix == record::PAGES {
            for item in &mut listing.items {
                let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
                if let Some(page) = body.as_object_mut() {
                    page.remove("earlier_calls");
                }
                item.draft.body = body.to_string();
            }
        }
        Ok(listing)
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        if self.variant == BrokenVariant::LineNotListed && partition == keys::index::WAITING_JOBS {
            return Ok(Listing::default());
        }
        self.inner.list_index(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut changes = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            changes.extend(self.change(change).await?);
        }
        if self.variant == BrokenVariant::PublishedBeforeStored {
            let drafts = changes.iter().filter_map(|change| match change {
                Change::Put { draft, when: When::Absent } => Some(draft),
                _ => None,
            });
            let events: Vec<_> = drafts.filter_map(|draft| serde_json::from_str(&draft.body).ok()).collect();
            self.bus.publish(&events).await?;
        }
        let written = self.inner.write(&Batch { stamp: batch.stamp.clone(), changes }).await?;
        Ok(match written {
            Written::Refused { index, existing: Some(mut item) }
                if self.variant == BrokenVariant::DonePagesReclaimable
                    && item.draft.key.sort.starts_with("page#") =>
            {
                let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
                body["outcome"] = Value::Null;
                item.draft.body = body.to_string();
                Written::Refused { index, existing: Some(item) }
            }
            written => written,
        })
    }
}

#[async_trait]
impl Blobs for BrokenPort<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        if self.variant == BrokenVariant::ResultsOverwritten && key.contains("/result/") {
            self.inner.delete_all(key).await?;
        }
        if self.variant == BrokenVariant::FallbackTextLost && key.contains("/text/") {
            let mut pages: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            for page in pages.as_array_mut().into_iter().flatten() {
                page["text"] = "".into();
            }
            return self.inner.put_new(key, pages.to_string().into_bytes()).await;
        }
        self.inner.put_new(key, bytes).await
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.inner.put_file(key, file).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.inner.get(key).await
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        self.inner.open(key).await
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.inner.delete(key).await
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.inner.delete_all(prefix).await
    }
}

#[async_trait]
impl Queue for BrokenPort<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        if self.variant == BrokenVariant::WaitsPastDeadline {
            let late = |message: &Outgoing| match message.delay {
                Duration::ZERO => message.clone(),
                delay => Outgoing { delay: delay + MAX_DEADLINE, ..message.clone() },
            };
            return self.inner.send(&messages.iter().map(late).collect::<Vec<_>>()).await;
        }
        self.inner.send(messages).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let received = self.inner.receive(max, visibility).await?;
        if self.variant == BrokenVariant::MessagesDeletedOnReceive {
            for delivery in &received {
                self.inner.delete(&delivery.receipt).await?;
            }
        }
        Ok(received)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        if self.variant == BrokenVariant::VisibilityNotExtended {
            return Ok(());
        }
        self.inner.extend(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.inner.delete(receipt).await
    }

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.inner.receive_dead_letters(max, visibility).await
    }

    async fn wake(&self) -> Result<bool, Fault> {
        if self.variant == BrokenVariant::WaitsPastDeadline {
            return Ok(false);
        }
        self.inner.wake().await
    }

    fn max_delay(&self) -> Duration {
        self.inner.max_delay()
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.inner.depths().await
    }

    async fn about_depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.inner.about_depths().await
    }
}

#[async_trait]
impl Flow for BrokenPort<dyn Flow> {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        self.inner.start(start).await
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        self.inner.pages_settled(job).await
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        self.inner.wake(job).await
    }

    async fn remind(&self, job: &JobId, state: job::State) -> Result<(), Fault> {
        self.inner.remind(job, state).await
    }
}

/// The later of two answers for a page reaches its process first.
#[async_trait]
impl Vision for BrokenPort<dyn Vision> {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        if self.variant != BrokenVariant::LoserSettles {
            return self.inner.read_page(target, request).await;
        }
        let page = &request.context_text;
        let calls = self.open_calls.enter(page);
        let answer = self.inner.read_page(target, request).await;
        // The first answer waits for the second.
        if answer.is_ok() && calls.is_first_answer() {
            while calls.has_another() {
                self.clock.sleep(Duration::from_millis(10)).await;
            }
        }
        answer
    }

    fn price(&self, target: &Target) -> Option<Price> {
        self.inner.price(target)
    }
}

/// The calls of a process that are in flight, by page, and how many of them were answered.
#[derive(Clone, Default)]
pub struct OpenCalls(Arc<Mutex<BTreeMap<String, (usize, usize)>>>);

impl OpenCalls {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (usize, usize)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self, page: &str) -> OpenCall {
        self.lock().entry(page.to_owned()).or_default().0 += 1;
        OpenCall { calls: self.clone(), page: page.to_owned() }
    }
}

struct OpenCall {
    calls: OpenCalls,
    page: String,
}

impl OpenCall {
    fn is_first_answer(&self) -> bool {
        let mut calls = self.calls.lock();
        let (_, answered) = calls.entry(self.page.clone()).or_default();
        *answered += 1;
        *answered == 1
    }

    fn has_another(&self) -> bool {
        self.calls.lock().get(&self.page).is_some_and(|(open, _)| *open > 1)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if let Some((open, _)) = calls.get_mut(&self.page) {
            *open -= 1;
            if *open == 0 {
                calls.remove(&self.page);
            }
        }
    }
}

#[async_trait]
impl Payments for BrokenPort<dyn Payments> {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let mut charge = charge.clone();
        if self.variant == BrokenVariant::PaymentsWithoutKeys {
            charge.key += &format!(" repeat {}", self.calls.fetch_add(1, Ordering::Relaxed));
        }
        self.inner.charge(&charge).await
    }

    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        self.inner.refund(refund).await
    }
}

#[async_trait]
impl Clock for BrokenPort<dyn Clock> {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn sleep(&self, time: Duration) {
        if self.variant == BrokenVariant::LongTimersNeverFire && time > Duration::from_secs(10) {
            std::future::pending::<()>().await;
        }
        self.inner.sleep(time).await;
    }
}

#[async_trait]
impl Pdf for BrokenPort<dyn Pdf> {
    async fn inspect(&self, source: PdfSource<'_>, time: Duration) -> Result<u32, PdfError> {
        self.inner.inspect(source, time).await
    }

    async fn read(
        &self,
        source: PdfSource<'_>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let mut readings = self.inner.read(source, pages, options).await?;
        if self.variant == BrokenVariant::PagesSwapped
            && let [first, second, ..] = readings.as_mut_slice()
        {
            std::mem::swap(&mut first.text, &mut second.text);
        }
        Ok(readings)
    }
}
