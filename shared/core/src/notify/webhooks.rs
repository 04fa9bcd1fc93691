//! The store of webhooks of tenants and of their deliveries.

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
    tenants::administration::{self, AdministrationEvent},
    time::after,
    trace::TraceContext,
};

/// Random 64-bit words in a secret: 192 bits, the minimum of the specification.
const SECRET_WORDS: usize = 3;
/// How long a delivery is stored after it was delivered, dropped or given up.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The URL that is notified when a tenant's jobs end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub url: String,
    /// Sealed by the vault.
    pub sealed_secret: String,
    pub created_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    Waiting,
    Delivered,
    /// Given up: there is a dead letter for it.
    Dead,
    /// Not sent, because the tenant removed its webhook.
    Dropped,
}

/// The message to a tenant's webhook that a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Derived from the event: constant over all attempts, so that receivers can deduplicate.
    pub id: String,
    pub tenant: TenantId,
    pub job: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    pub body: String,
    pub progress: Progress,
    /// Attempts to send it, in total.
    pub attempts: u32,
    #[serde(rename = "tries")]
    pub attempts_since_redrive: u32,
    pub redrives: u32,
    /// When it may be sent; while a process sends it, when that process's lease expires.
    pub due: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The job's trace context, for the span of each attempt and for the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
}

/// The id of the delivery of an event.
pub fn delivery_id(end: &Event) -> String {
    format!("msg_{}", end.id)
}

/// The tenant's webhook; `None` if it has none.
pub async fn of_tenant(store: &Store, tenant: &TenantId) -> Result<Option<Webhook>, Fault> {
    let item = store.records.get(&record::tenant_webhook(tenant)).await?;
    item.as_ref().map(|item| Ok(decode(item)?.value)).transpose()
}

/// Sets the tenant's webhook and returns its new secret, which is stored sealed only.
pub async fn set(
    store: &Store,
    vault: &dyn Vault,
    tenant: &TenantId,
    url: &str,
    by: &str,
) -> Result<Secret, Fault> {
    let random: Vec<u8> =
        (0..SECRET_WORDS).flat_map(|_| store.ids.random_below(u64::MAX).to_be_bytes()).collect();
    let secret = webhook::secret(&random);
    let webhook = Webhook {
        url: url.to_owned(),
        sealed_secret: vault.seal(&secret).await?,
        created_at: store.clock.now(),
    };
    loop {
        let known = store.records.get(&record::tenant_webhook(tenant)).await?;
        let when = known.map_or(When::Absent, |item| When::Version(item.version));
        let change =
            Change::Put { draft: Draft::new(record::tenant_webhook(tenant), encode(&webhook)?), when };
        let event = AdministrationEvent::WebhookChanged { removed: false };
        let mut changes = administration::changes(store, tenant, by, event).await?;
        changes.push(change);
        if store.write(changes).await? == Written::Applied {
            return Ok(secret);
        }
    }
}

/// Removes the tenant's webhook; its waiting deliveries are dropped. False if it had none.
pub async fn unset(store: &Store, tenant: &TenantId, by: &str) -> Result<bool, Fault> {
    loop {
        let Some(item) = store.records.get(&record::tenant_webhook(tenant)).await? else { return Ok(false) };
        let event = AdministrationEvent::WebhookChanged { removed: true };
        let mut changes = administration::changes(store, tenant, by, event).await?;
        changes.push(Change::Delete { key: record::tenant_webhook(tenant), version: item.version });
        if store.write(changes).await? == Written::Applied {
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

/// Stores a delivery that was `before`; `None` if another process changed it in between.
pub async fn save(
    store: &Store,
    before: Option<&Versioned<Delivery>>,
    delivery: Delivery,
) -> Result<Option<Versioned<Delivery>>, Fault> {
    let is_waiting = delivery.progress == Progress::Waiting;
    let when = before.map_or(When::Absent, |before| When::Version(before.version));
    let draft = Draft {
        state_index: is_waiting
            .then(|| IndexEntry::new(index::DUE_WEBHOOKS, format!("{:.3}#{}", delivery.due, delivery.id))),
        expires: (!is_waiting).then(|| after(store.clock.now(), RETENTION)),
        ..Draft::new(record::webhook_delivery(&delivery.id), encode(&delivery)?)
    };
    let written = write(store, Change::Put { draft, when }).await?;
    Ok(written.then_some(Versioned { value: delivery, version: when.next_version() }))
}

/// Deletes a delivery, sent or not.
pub async fn delete(store: &Store, id: &str) -> Result<(), Fault> {
    while let Some(delivery) = find(store, id).await? {
        if write(store, Change::Delete { key: record::webhook_delivery(id), version: delivery.version })
            .await?
        {
            break;
        }
    }
    Ok(())
}

/// The first `limit` waiting deliveries, by the time when they are due.
pub async fn waiting(store: &Store, limit: usize) -> Result<Vec<Versioned<Delivery>>, Fault> {
    Ok(list_waiting(store, None, limit).await?.0)
}

/// A page of the waiting deliveries after `after`, by the time when they are due, and where the next page
/// starts.
pub async fn list_waiting(
    store: &Store,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<Versioned<Delivery>>, Option<String>), Fault> {
    let listing =
        store.records.list_index(Index::State, index::DUE_WEBHOOKS, after.as_deref(), false, limit).await?;
    let deliveries: Result<Vec<_>, Fault> = listing.items.iter().map(decode).collect();
    Ok((deliveries?, listing.next))
}
