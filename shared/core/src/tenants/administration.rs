//! The trail of acts of administration on a tenant: who created a key, changed a setting or a webhook, or
//! deleted a job. Stored in the same batch as the act. Its record also says whether the tenant is closed,
//! because it is being erased.

use serde::{Deserialize, Serialize};

use crate::{
    event::{Actor, Aggregate, DomainEvent, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, ErasureId, EventId, JobId, TenantId},
    keys::record,
    money::MicroUsd,
    ports::{
        Fault,
        records::{Change, Draft, When},
    },
    records::{Versioned, decode, encode},
    tenants::caller::Role,
};

/// Names and numbers only: no secret, no prompt, no address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum AdministrationEvent {
    /// The first act of administration on a tenant.
    #[serde(rename = "tenant.created")]
    TenantCreated {},
    #[serde(rename = "tenant.changed")]
    TenantChanged { set: Vec<String>, unset: Vec<String> },
    #[serde(rename = "key.created")]
    KeyCreated { key: String, user: String, role: Role },
    #[serde(rename = "key.revoked")]
    KeyRevoked { key: String },
    #[serde(rename = "webhook.changed")]
    WebhookChanged {
        removed: bool,
        /// Events of before there were several have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        webhook: Option<String>,
    },
    /// All that is left of a job that was deleted.
    #[serde(rename = "job.deleted")]
    JobDeleted { job: JobId, pages: u32, cost_micro_usd: MicroUsd },
    /// All that was the tenant's is deleted: so many jobs, with all of their pages.
    #[serde(rename = "tenant.erased")]
    TenantErased { erasure: ErasureId, jobs: u64, pages: u64, cost_micro_usd: MicroUsd },
}

impl DomainEvent for AdministrationEvent {}

/// The end of a tenant's trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Administration {
    pub head: Head,
    /// The erasure that closes the tenant, until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<ErasureId>,
}

/// The tenant is being erased and accepts nothing until that is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tenant {} is being erased", .0.as_str())]
pub struct TenantClosed(pub TenantId);

/// Why an act of administration is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    #[error(transparent)]
    Closed(#[from] TenantClosed),
    #[error(transparent)]
    Fault(#[from] Fault),
}

pub async fn load(store: &Store, tenant: &TenantId) -> Result<Versioned<Administration>, Fault> {
    let found = store.records.get(&record::administration(tenant)).await?;
    Ok(found.as_ref().map(decode).transpose()?.unwrap_or_default())
}

/// Refuses what is about to be stored for a tenant that is being erased.
pub async fn check_open(store: &Store, tenant: &TenantId) -> Result<(), ActError> {
    match load(store, tenant).await?.value.erasure {
        Some(_) => Err(TenantClosed(tenant.clone()).into()),
        None => Ok(()),
    }
}

/// The writes that record an act by `by`, for a caller that stores them with the act itself. They are refused
/// if another act is recorded in between: then the caller reads and decides again.
///
/// For acts that add something to the tenant: a tenant that is being erased refuses them. Because of the
/// condition on this record, none is stored after the tenant was closed.
pub async fn changes_if_open(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: AdministrationEvent,
) -> Result<Vec<Change>, ActError> {
    let before = load(store, tenant).await?;
    if before.value.erasure.is_some() {
        return Err(TenantClosed(tenant.clone()).into());
    }
    Ok(append(store, tenant, by, event, before)?)
}

/// Like [`changes_if_open`], for acts that only take something away.
pub async fn changes(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: AdministrationEvent,
) -> Result<Vec<Change>, Fault> {
    let before = load(store, tenant).await?;
    append(store, tenant, by, event, before)
}

/// The write that closes a tenant for `erasure`.
pub fn close(
    tenant: &TenantId,
    before: &Versioned<Administration>,
    erasure: &ErasureId,
) -> Result<Change, Fault> {
    let closed = Administration { erasure: Some(erasure.clone()), ..before.value.clone() };
    put(tenant, before.version, &closed)
}

/// The writes that record an erasure and open the tenant again.
pub async fn open(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: AdministrationEvent,
) -> Result<Vec<Change>, Fault> {
    let mut before = load(store, tenant).await?;
    before.value.erasure = None;
    append(store, tenant, by, event, before)
}

fn put(tenant: &TenantId, version: u64, administration: &Administration) -> Result<Change, Fault> {
    let when = if version == 0 { When::Absent } else { When::Version(version) };
    let draft = Draft::new(record::administration(tenant), encode(administration)?);
    Ok(Change::Put { draft, when })
}

fn append(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: AdministrationEvent,
    before: Versioned<Administration>,
) -> Result<Vec<Change>, Fault> {
    let mut head = before.value.head.clone();
    let created = (head.sequence == 0).then_some(AdministrationEvent::TenantCreated {});
    let mut changes = Vec::new();
    for event in created.into_iter().chain([event]) {
        let metadata =
            Metadata::untraced(tenant.clone(), Some(by.to_owned()), Actor::Operator, &store.environment);
        let (stored, next) = head.append(
            Aggregate::Tenant(tenant.clone()),
            EventId::new(store.ids.fresh()),
            &event,
            store.clock.now(),
            CorrelationId::new(store.ids.fresh()),
            metadata,
        );
        changes.push(trail::append(store, &stored)?);
        head = next;
    }
    changes.push(put(tenant, before.version, &Administration { head, ..before.value })?);
    Ok(changes)
}
