//! The trail of acts of administration on a tenant: who created a key, changed a setting or a webhook, or
//! deleted a job. Stored in the same batch as the act.

use serde::{Deserialize, Serialize};

use crate::{
    event::{Actor, Aggregate, Head, Metadata},
    events::{Store, trail},
    ids::{CorrelationId, EventId, JobId, TenantId},
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
    WebhookChanged { removed: bool },
    /// All that is left of a job that was deleted.
    #[serde(rename = "job.deleted")]
    JobDeleted { job: JobId, pages: u32, cost_micro_usd: MicroUsd },
}

/// The end of a tenant's trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Administration {
    pub head: Head,
}

pub async fn load(store: &Store, tenant: &TenantId) -> Result<Versioned<Administration>, Fault> {
    let found = store.records.get(&record::administration(tenant)).await?;
    Ok(found.as_ref().map(decode).transpose()?.unwrap_or_default())
}

/// The writes that record an act by `by`, for a caller that stores them with the act itself. They are refused
/// if another act is recorded in between: then the caller reads and decides again.
pub async fn changes(
    store: &Store,
    tenant: &TenantId,
    by: &str,
    event: AdministrationEvent,
) -> Result<Vec<Change>, Fault> {
    let before = load(store, tenant).await?;
    let mut head = before.value.head;
    let created = (before.version == 0).then_some(AdministrationEvent::TenantCreated {});
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
    let when = if before.version == 0 { When::Absent } else { When::Version(before.version) };
    let draft = Draft::new(record::administration(tenant), encode(&Administration { head })?);
    changes.push(Change::Put { draft, when });
    Ok(changes)
}
