//! The store of webhooks of tenants and of their deliveries.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    dead_letters,
    event::Event,
    events::Store,
    ids::{CorrelationId, DeadLetterId, JobId, Priority, TenantId},
    job::StepError,
    keys::{index, record},
    notify::{receivers, webhook},
    ports::{
        Fault,
        records::{Change, Draft, Index, IndexEntry, Item, When, Written},
        vault::Vault,
    },
    records::{BATCH_SIZE, ListPage, Versioned, decode, encode, list_page, read_all},
    secret::Secret,
    tenants::administration::{self, ActError, AdministrationEvent},
    time::after,
    trace::TraceContext,
};

/// The id of a tenant's first webhook: the one that `PUT /v1/webhook` sets.
pub const DEFAULT: &str = record::DEFAULT_WEBHOOK;
/// Each event of a tenant is compared with each of its webhooks.
pub const MAX_PER_TENANT: usize = 100;
/// Random 64-bit words in a secret: 192 bits, the minimum of the specification.
const SECRET_WORDS: usize = 3;
/// How long a delivery is stored after it was delivered, dropped or given up.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A URL that is notified of events of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    #[serde(default = "default_id")]
    pub id: String,
    pub url: String,
    /// Sealed by the vault.
    pub sealed_secret: String,
    pub created_at: Timestamp,
    /// Types of events, or prefixes such as `job.*`; without any, the ends of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

fn default_id() -> String {
    DEFAULT.to_owned()
}

impl Webhook {
    pub fn wants(&self, event: &Event) -> bool {
        webhook::is_wanted(&self.events, event)
    }
}

/// A caller's choices for a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    pub url: String,
    pub events: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Progress {
    Waiting,
    Delivered,
    /// Given up: there is a dead letter for it. Stored under the name of version 0.1.
    #[serde(rename = "dead")]
    DeadLetter,
    /// Not sent, because the tenant removed its webhook, or because its receiver accepted nothing for days.
    Dropped,
}

/// The message to one webhook about one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Derived from the event: constant over all attempts, so that receivers can deduplicate.
    pub id: String,
    pub tenant: TenantId,
    #[serde(default = "default_id")]
    pub hook: String,
    /// The type of the event; empty in deliveries of before webhooks had types.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The job that the event is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// That of the event.
    #[serde(default)]
    pub priority: Priority,
    /// Empty once it is dropped.
    pub body: String,
    pub progress: Progress,
    /// Attempts to send it, in total.
    pub attempts: u32,
    #[serde(rename = "tries")]
    pub attempts_since_redrive: u32,
    pub redrives: u32,
    /// Not listed by its webhook without it, as deliveries of before there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it may be sent; while a process sends it, when that process's lease expires.
    pub due: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The job's trace context, for the span of each attempt and for the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
}

/// The id of the delivery of an event to a webhook.
pub fn delivery_id(event: &Event, hook: &str) -> String {
    match hook {
        DEFAULT => format!("{}{}", webhook::MESSAGE_PREFIX, event.id),
        hook => format!("{}{}_{hook}", webhook::MESSAGE_PREFIX, event.id),
    }
}

/// The tenant's webhooks: the default one first.
pub async fn list(store: &Store, tenant: &TenantId) -> Result<Vec<Webhook>, Fault> {
    let partition = record::tenant_partition(tenant);
    let found = read_all(store.records.as_ref(), &partition, record::TENANT_WEBHOOKS).await?;
    Ok(found.into_iter().map(|webhook| webhook.value).collect())
}

/// One of the tenant's webhooks.
pub async fn of_tenant(store: &Store, tenant: &TenantId, id: &str) -> Result<Option<Webhook>, Fault> {
    let item = read(store, tenant, id).await?;
    item.as_ref().map(|item| Ok(decode(item)?.value)).transpose()
}

async fn read(store: &Store, tenant: &TenantId, id: &str) -> Result<Option<Item>, Fault> {
    store.records.get(&record::tenant_webhook(tenant, id)).await
}

fn new_secret(store: &Store) -> Secret {
    let random: Vec<u8> =
        (0..SECRET_WORDS).flat_map(|_| store.ids.random_below(u64::MAX).to_be_bytes()).collect();
    webhook::secret(&random)
}

/// Stores the webhook if it is still as in `known`; with the event of who did it. Its receiver has a new chance.
async fn put(
    store: &Store,
    tenant: &TenantId,
    known: Option<&Item>,
    webhook: &Webhook,
    by: &str,
) -> Result<bool, ActError> {
    let changes = put_changes(store, tenant, known, webhook, by).await?;
    let is_stored = store.write(changes).await? == Written::Applied;
    if is_stored {
        receivers::reset(store, tenant, &webhook.id).await?;
    }
    Ok(is_stored)
}

async fn put_changes(
    store: &Store,
    tenant: &TenantId,
    known: Option<&Item>,
    webhook: &Webhook,
    by: &str,
) -> Result<Vec<Change>, ActError> {
    let when = known.map_or(When::Absent, |item| When::Version(item.version));
    let key = record::tenant_webhook(tenant, &webhook.id);
    let event = AdministrationEvent::WebhookChanged { removed: false, webhook: Some(webhook.id.clone()) };
    let mut changes = administration::changes_if_open(store, tenant, by, event).await?;
    changes.push(Change::Put { draft: Draft::new(key, encode(webhook)?), when });
    Ok(changes)
}

/// Sets the tenant's default webhook, which is notified of the ends of jobs, and returns its new secret, which
/// is stored sealed only.
pub async fn set(
    store: &Store,
    vault: &dyn Vault,
    tenant: &TenantId,
    url: &str,
    by: &str,
) -> Result<Secret, ActError> {
    let secret = new_secret(store);
    let webhook = Webhook {
        id: DEFAULT.to_owned(),
        url: url.to_owned(),
        sealed_secret: vault.seal(&secret).await?,
        created_at: store.clock.now(),
        events: Vec::new(),
    };
    loop {
        let known = read(store, tenant, DEFAULT).await?;
        if put(store, tenant, known.as_ref(), &webhook, by).await? {
            return Ok(secret);
        }
    }
}

/// Adds a webhook and returns it with its secret; `None` if the tenant has [`MAX_PER_TENANT`].
pub async fn add(
    store: &Store,
    vault: &dyn Vault,
    tenant: &TenantId,
    wanted: &Subscription,
    by: &str,
) -> Result<Option<(Webhook, Secret)>, ActError> {
    let secret = new_secret(store);
    let webhook = Webhook {
        id: store.ids.fresh(),
        url: wanted.url.clone(),
        sealed_secret: vault.seal(&secret).await?,
        created_at: store.clock.now(),
        events: wanted.events.clone(),
    };
    loop {
        let changes = put_changes(store, tenant, None, &webhook, by).await?;
        // After the tenant's trail was read: another webhook that is added meanwhile refuses this write.
        if list(store, tenant).await?.len() >= MAX_PER_TENANT {
            return Ok(None);
        }
        if store.write(changes).await? == Written::Applied {
            return Ok(Some((webhook, secret)));
        }
    }
}

/// Changes the URL and the types of a webhook, and its secret if `rotate`; `None` if there is no such webhook.
pub async fn change(
    store: &Store,
    vault: &dyn Vault,
    tenant: &TenantId,
    id: &str,
    wanted: &Subscription,
    rotate: bool,
    by: &str,
) -> Result<Option<(Webhook, Option<Secret>)>, ActError> {
    let secret = rotate.then(|| new_secret(store));
    let sealed = match &secret {
        Some(secret) => Some(vault.seal(secret).await?),
        None => None,
    };
    loop {
        let Some(item) = read(store, tenant, id).await? else { return Ok(None) };
        let before: Webhook = decode(&item)?.value;
        let webhook = Webhook {
            url: wanted.url.clone(),
            events: wanted.events.clone(),
            sealed_secret: sealed.clone().unwrap_or_else(|| before.sealed_secret.clone()),
            ..before
        };
        if put(store, tenant, Some(&item), &webhook, by).await? {
            return Ok(Some((webhook, secret)));
        }
    }
}

/// Removes a webhook with its deliveries and their dead letters. False if there was none. Repeating it
/// completes a removal that was interrupted.
pub async fn remove(store: &Store, tenant: &TenantId, id: &str, by: &str) -> Result<bool, StepError> {
    let existed = loop {
        let Some(item) = read(store, tenant, id).await? else { break false };
        let event = AdministrationEvent::WebhookChanged { removed: true, webhook: Some(id.to_owned()) };
        let mut changes = administration::changes(store, tenant, by, event).await?;
        let key = record::tenant_webhook(tenant, id);
        changes.push(Change::Delete { key, version: item.version });
        if store.write(changes).await? == Written::Applied {
            break true;
        }
    };
    receivers::reset(store, tenant, id).await?;
    let partition = index::webhook_deliveries(tenant, id);
    let mut after = None;
    loop {
        let listing =
            store.records.list_index(Index::Tenant, &partition, after.as_deref(), false, BATCH_SIZE).await?;
        for item in &listing.items {
            let delivery: Delivery = decode(item)?.value;
            delete_with_dead_letter(store, &delivery.id, by).await?;
        }
        after = listing.next;
        if after.is_none() {
            return Ok(existed);
        }
    }
}

/// Deletes a delivery, and discards its dead letter.
async fn delete_with_dead_letter(store: &Store, id: &str, by: &str) -> Result<(), StepError> {
    let dead_letter = DeadLetterId::new(id);
    if dead_letters::find(store, &dead_letter).await?.is_some_and(|found| found.value.is_waiting()) {
        dead_letters::purge(store, &dead_letter, by).await?;
    }
    Ok(delete(store, id).await?)
}

async fn write(store: &Store, change: Change) -> Result<bool, Fault> {
    Ok(store.write(vec![change]).await? == Written::Applied)
}

pub async fn find(store: &Store, id: &str) -> Result<Option<Versioned<Delivery>>, Fault> {
    store.records.get(&record::webhook_delivery(id)).await?.as_ref().map(decode).transpose()
}

/// The ids of the first `limit` deliveries about a job after `after`, and whether there are more. Those of before
/// version 0.2 are not among them.
pub async fn of_job(
    store: &Store,
    job: &JobId,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<String>, bool), Fault> {
    let after = after.map(|id| record::job_delivery(job, id).sort);
    let partition = record::job_partition(job);
    let listing = store.records.list(&partition, record::JOB_DELIVERIES, after.as_deref(), limit).await?;
    let id = |item: &Item| item.draft.key.sort.strip_prefix(record::JOB_DELIVERIES).map(str::to_owned);
    Ok((listing.items.iter().filter_map(id).collect(), listing.next.is_some()))
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
        tenant_index: delivery.created_at.map(|at| {
            let partition = index::webhook_deliveries(&delivery.tenant, &delivery.hook);
            IndexEntry::new(partition, index::by_time(at, &delivery.id))
        }),
        state_index: is_waiting
            .then(|| IndexEntry::new(index::DUE_WEBHOOKS, index::by_time(delivery.due, &delivery.id))),
        expires: (!is_waiting).then(|| after(store.clock.now(), RETENTION)),
        ..Draft::new(record::webhook_delivery(&delivery.id), encode(&delivery)?)
    };
    let mut changes = vec![Change::Put { draft, when }];
    if let (None, Some(job)) = (before, &delivery.job) {
        // With its job's records, so that the deletion of the job finds it.
        let draft = Draft::new(record::job_delivery(job, &delivery.id), "{}".to_owned());
        changes.push(Change::Put { draft, when: When::Absent });
    }
    let written = store.write(changes).await? == Written::Applied;
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

/// A page of the deliveries of one webhook, newest first. Those of before there were several are not listed.
pub async fn deliveries(
    store: &Store,
    tenant: &TenantId,
    hook: &str,
    after: Option<String>,
    limit: usize,
) -> Result<ListPage<Delivery>, Fault> {
    let partition = index::webhook_deliveries(tenant, hook);
    list_page(store.records.as_ref(), Index::Tenant, &partition, after, true, limit, |_| true).await
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
