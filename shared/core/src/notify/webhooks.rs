//! Where a tenant wants to be told of ends, and what is on its way there.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::Event,
    events::Store,
    ids::{CorrelationId, JobId, TenantId},
    keys::{index, record},
    notify::webhook,
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, When, Written},
        vault::Vault,
    },
    records::{Versioned, decode, encode},
    secret::Secret,
    time::after,
    trace::TraceContext,
};

/// Dice of 64 bits in a secret: 192 bits, as the specification wants at least.
const DICE: usize = 3;
/// A delivery that is over, in whatever way, can be looked at for a month.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A tenant's receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub url: String,
    /// As the vault sealed it.
    pub sealed_secret: String,
    pub created_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    Waiting,
    Delivered,
    /// Given up; it is among the dead letters.
    Dead,
    /// There was nobody to tell any more.
    Dropped,
}

/// One message to a tenant about one end of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The event's: the same however often it is sent, so that receivers know it again.
    pub id: String,
    pub tenant: TenantId,
    pub job: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    pub body: String,
    pub progress: Progress,
    /// Sendings so far, and of those the ones since it was last redriven.
    pub attempts: u32,
    pub tries: u32,
    pub redrives: u32,
    /// When it may be sent; while somebody sends it, when others may.
    pub due: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The job's; for the sending and for the receiver's own trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
}

/// Which message tells of this end: the same however often it is written down.
pub fn delivery_id(end: &Event) -> String {
    format!("msg_{}", end.id)
}

pub async fn of_tenant(store: &Store, tenant: &TenantId) -> Result<Option<Webhook>, Fault> {
    let item = store.records.get(&record::tenant_webhook(tenant)).await?;
    item.as_ref().map(|item| Ok(decode(item)?.value)).transpose()
}

/// Sets where the tenant is told, with a new secret. It is in the answer and nowhere else in clear.
pub async fn set(store: &Store, vault: &dyn Vault, tenant: &TenantId, url: &str) -> Result<Secret, Fault> {
    let dice: Vec<u8> = (0..DICE).flat_map(|_| store.ids.roll(u64::MAX).to_be_bytes()).collect();
    let secret = webhook::secret(&dice);
    let made = Webhook {
        url: url.to_owned(),
        sealed_secret: vault.seal(&secret).await?,
        created_at: store.clock.now(),
    };
    loop {
        let known = store.records.get(&record::tenant_webhook(tenant)).await?;
        let when = known.map_or(When::Absent, |item| When::Version(item.version));
        let change = Change::Put { draft: Draft::new(record::tenant_webhook(tenant), encode(&made)?), when };
        if write(store, change).await? {
            return Ok(secret);
        }
    }
}

/// From now on the tenant is told of nothing; what is on its way is dropped. False when there was
/// nothing to take back.
pub async fn unset(store: &Store, tenant: &TenantId) -> Result<bool, Fault> {
    loop {
        let Some(item) = store.records.get(&record::tenant_webhook(tenant)).await? else { return Ok(false) };
        if write(store, Change::Delete { key: record::tenant_webhook(tenant), version: item.version }).await?
        {
            return Ok(true);
        }
    }
}

async fn write(store: &Store, change: Change) -> Result<bool, Fault> {
    Ok(store.write(vec![change]).await? == Written::Applied)
}

pub async fn find(store: &Store, id: &str) -> Result<Option<Versioned<Delivery>>, Fault> {
    store.records.get(&record::webhook_delivery(id)).await?.as_ref().map(decode).transpose()
}

/// Writes it on the condition that nobody did since `before`; `None` when somebody did.
pub async fn store(
    store: &Store,
    before: Option<&Versioned<Delivery>>,
    delivery: Delivery,
) -> Result<Option<Versioned<Delivery>>, Fault> {
    let waits = delivery.progress == Progress::Waiting;
    let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
    let draft = Draft {
        state_index: waits
            .then(|| IndexEntry::new(index::DUE_WEBHOOKS, format!("{:.3}#{}", delivery.due, delivery.id))),
        expires: (!waits).then(|| after(store.clock.now(), KEPT)),
        ..Draft::new(record::webhook_delivery(&delivery.id), encode(&delivery)?)
    };
    let written = write(store, Change::Put { draft, when }).await?;
    Ok(written.then_some(Versioned { value: delivery, version: when.next_version() }))
}

/// It was never there: neither sent nor looked at any more.
pub async fn forget(store: &Store, id: &str) -> Result<(), Fault> {
    while let Some(kept) = find(store, id).await? {
        if write(store, Change::Delete { key: record::webhook_delivery(id), version: kept.version }).await? {
            break;
        }
    }
    Ok(())
}

/// The deliveries that wait, those due first.
pub async fn waiting(store: &Store, limit: usize) -> Result<Vec<Versioned<Delivery>>, Fault> {
    Ok(waiting_from(store, None, limit).await?.0)
}

/// The same from a place on, with the place where it goes on.
pub async fn waiting_from(
    store: &Store,
    place: Option<String>,
    limit: usize,
) -> Result<(Vec<Versioned<Delivery>>, Option<String>), Fault> {
    let listing =
        store.records.list_index(Index::State, index::DUE_WEBHOOKS, place.as_deref(), false, limit).await?;
    let some: Result<Vec<_>, Fault> = listing.items.iter().map(decode).collect();
    Ok((some?, listing.next))
}
