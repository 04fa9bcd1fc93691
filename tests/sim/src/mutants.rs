//! Everypage with one of its guarantees taken away. Each of these must be caught: a suite that
//! can't fail proves nothing.
//!
//! All of Everypage's safety rests on what it asks of its ports (conditions on writes, leases, the
//! outbox, visibility), so a mutant is a port that does not do what it was asked.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{document::PageReading, ids::PageNumber, ids::Priority, secret::Secret},
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        bus::Bus,
        clock::Clock,
        payments::{Charge, PaymentError, Payments, Refund},
        pdf::{Pdf, PdfError, ReadOptions},
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Change, Draft, Index, Item, Key, Listing, Records, When, Written},
    },
};
use jiff::Timestamp;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    NoFencing,
    UnconditionalFinalize,
    UnconditionalSlots,
    UnleasedSlots,
    PublishedBeforeStored,
    UnpublishedEvents,
    BreakerCountsEveryPage,
    BreakerPerProcess,
    ResultsOverwritten,
    MessagesForgotten,
    DonePagesForgotten,
    DeadlineForgotten,
    TrailRewritten,
    PasswordsKept,
    PagesSwapped,
    NoRetries,
    SlotsKept,
    HalfOpenLetsAllThrough,
    FallbackTextLost,
    UnconditionalAccounts,
    PaymentsWithoutKeys,
}

impl Mutant {
    pub const ALL: [Self; 21] = [
        Self::NoFencing,
        Self::UnconditionalFinalize,
        Self::UnconditionalSlots,
        Self::UnleasedSlots,
        Self::PublishedBeforeStored,
        Self::UnpublishedEvents,
        Self::BreakerCountsEveryPage,
        Self::BreakerPerProcess,
        Self::ResultsOverwritten,
        Self::MessagesForgotten,
        Self::DonePagesForgotten,
        Self::DeadlineForgotten,
        Self::TrailRewritten,
        Self::PasswordsKept,
        Self::PagesSwapped,
        Self::NoRetries,
        Self::SlotsKept,
        Self::HalfOpenLetsAllThrough,
        Self::FallbackTextLost,
        Self::UnconditionalAccounts,
        Self::PaymentsWithoutKeys,
    ];

    pub fn what(self) -> &'static str {
        match self {
            Self::NoFencing => "a worker that lost its page may still settle it",
            Self::UnconditionalFinalize => "a job is written without looking whether it has moved on",
            Self::UnconditionalSlots => "an in-flight slot is taken without looking whether it is free",
            Self::UnleasedSlots => "an in-flight slot is held until it is given back",
            Self::PublishedBeforeStored => "events are published before they are stored",
            Self::UnpublishedEvents => "events are stored and not marked to be published",
            Self::BreakerCountsEveryPage => "each page of one outage counts as a failure of its own",
            Self::BreakerPerProcess => "each process has breakers of its own",
            Self::ResultsOverwritten => "a result of the same version is written over the first",
            Self::MessagesForgotten => "a message is deleted when it is received",
            Self::DonePagesForgotten => "a page that is done may be claimed again",
            Self::DeadlineForgotten => "long timers never end",
            Self::TrailRewritten => "events are changed on their way into the store",
            Self::PasswordsKept => "passwords are not deleted",
            Self::PagesSwapped => "two pages change places when they are read",
            Self::NoRetries => "our own calls are not tried again",
            Self::SlotsKept => "an in-flight slot is never given back",
            Self::HalfOpenLetsAllThrough => "a breaker that is half open lets everybody through",
            Self::FallbackTextLost => "the text that pages fall back to is stored empty",
            Self::UnconditionalAccounts => "an account is written without looking whether it has changed",
            Self::PaymentsWithoutKeys => "a payment that is asked for again is taken again",
        }
    }
}

impl std::str::FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|mutant| format!("{mutant:?}")).join(", ");
        Self::ALL
            .into_iter()
            .find(|mutant| format!("{mutant:?}") == text)
            .ok_or_else(|| format!("{text:?} is not a mutant: {}", known()))
    }
}

/// A port that does not do all that it is asked.
pub struct Sabotaged<P: ?Sized> {
    pub inner: Arc<P>,
    pub mutant: Mutant,
    pub process: usize,
    pub bus: Arc<dyn Bus>,
    pub calls: AtomicU64,
}

impl Sabotaged<dyn Records> {
    /// The key under which this process finds the record.
    fn own(&self, key: &Key) -> Key {
        if self.mutant == Mutant::BreakerPerProcess && key.partition == "breaker" {
            return Key::new(key.partition.clone(), format!("{}@{}", key.sort, self.process));
        }
        key.clone()
    }

    fn is_unconditional(&self, key: &Key) -> bool {
        match self.mutant {
            Mutant::NoFencing => key.sort.starts_with("page#") || key.sort.starts_with("pagelog#"),
            Mutant::UnconditionalFinalize => {
                key.sort == "job" || (key.partition.starts_with("job#") && key.sort.starts_with("event#"))
            }
            Mutant::UnconditionalSlots => key.partition.starts_with("slots#"),
            Mutant::UnconditionalAccounts => key.partition.starts_with("account#"),
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
        match self.mutant {
            Mutant::UnleasedSlots if draft.key.partition.starts_with("slots#") => {
                edit(&mut draft, &|body| {
                    if body["holder"] != "" {
                        body["until"] = "9999-01-01T00:00:00Z".into();
                    }
                });
            }
            Mutant::UnpublishedEvents if draft.key.sort.starts_with("pagelog#") => draft.state_index = None,
            Mutant::TrailRewritten if draft.key.sort.starts_with("event#0000000002") => {
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
            Change::Put { draft, .. } if self.mutant == Mutant::SlotsKept && gives_back(draft) => None,
            Change::Put { draft, when } => {
                let now = existing.map_or(When::Absent, |item| When::Version(item.version));
                let when = if unconditional { now } else { *when };
                Some(Change::Put { draft: self.distort(draft.clone()), when })
            }
            Change::Delete { key, .. } if self.mutant == Mutant::PasswordsKept && key.sort == "secret" => {
                None
            }
            Change::Delete { key, version } => match (unconditional, existing) {
                (false, _) => Some(Change::Delete { key: self.own(key), version: *version }),
                (true, Some(item)) => Some(Change::Delete { key: key.clone(), version: item.version }),
                (true, None) => None,
            },
        })
    }

    fn seen(&self, item: Option<Item>) -> Option<Item> {
        let mut item = item?;
        if self.mutant == Mutant::BreakerCountsEveryPage && item.draft.key.partition == "breaker" {
            let mut body: Value = serde_json::from_str(&item.draft.body).unwrap_or_default();
            body["breaker"]["generation"] = 0.into();
            item.draft.body = body.to_string();
        }
        if self.mutant == Mutant::HalfOpenLetsAllThrough && item.draft.key.partition == "breaker" {
            item.draft.body = item.draft.body.replace("\"half_open\"", "\"closed\"");
        }
        Some(item)
    }
}

/// Is it a slot that nobody has any more?
fn gives_back(draft: &Draft) -> bool {
    draft.key.partition.starts_with("slots#") && draft.body.contains("\"holder\":\"\"")
}

#[async_trait]
impl Records for Sabotaged<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        Ok(self.seen(self.inner.get(&self.own(key)).await?))
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
        self.inner.list(partition, prefix, after, limit).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.inner.list_index(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut changes = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            changes.extend(self.change(change).await?);
        }
        if self.mutant == Mutant::PublishedBeforeStored {
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
                if self.mutant == Mutant::DonePagesForgotten && item.draft.key.sort.starts_with("page#") =>
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
impl Blobs for Sabotaged<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        if self.mutant == Mutant::ResultsOverwritten && key.contains("/result/") {
            self.inner.delete_all(key).await?;
        }
        if self.mutant == Mutant::FallbackTextLost && key.contains("/text/") {
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
impl Queue for Sabotaged<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        self.inner.send(messages).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let received = self.inner.receive(max, visibility).await?;
        if self.mutant == Mutant::MessagesForgotten {
            for delivery in &received {
                self.inner.delete(&delivery.receipt).await?;
            }
        }
        Ok(received)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.inner.extend(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.inner.delete(receipt).await
    }

    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.inner.receive_dead(max, visibility).await
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.inner.depths().await
    }
}

#[async_trait]
impl Payments for Sabotaged<dyn Payments> {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let mut charge = charge.clone();
        if self.mutant == Mutant::PaymentsWithoutKeys {
            charge.key += &format!(" asked for at {}", self.calls.fetch_add(1, Ordering::Relaxed));
        }
        self.inner.charge(&charge).await
    }

    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        self.inner.refund(refund).await
    }
}

#[async_trait]
impl Clock for Sabotaged<dyn Clock> {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn sleep(&self, time: Duration) {
        if self.mutant == Mutant::DeadlineForgotten && time > Duration::from_secs(10) {
            std::future::pending::<()>().await;
        }
        self.inner.sleep(time).await;
    }
}

#[async_trait]
impl Pdf for Sabotaged<dyn Pdf> {
    async fn inspect(&self, file: &Path, password: Option<&Secret>, time: Duration) -> Result<u32, PdfError> {
        self.inner.inspect(file, password, time).await
    }

    async fn read(
        &self,
        file: &Path,
        password: Option<&Secret>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let mut readings = self.inner.read(file, password, pages, options).await?;
        if self.mutant == Mutant::PagesSwapped
            && let [first, second, ..] = readings.as_mut_slice()
        {
            std::mem::swap(&mut first.text, &mut second.text);
        }
        Ok(readings)
    }
}
