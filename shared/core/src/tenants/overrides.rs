//! Settings that a tenant overrides, and the settings that are effective for each tenant.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{
    events::Store,
    ids::TenantId,
    keys::record,
    ports::{
        Fault,
        records::{Change, Draft, When, Written},
    },
    records::{Versioned, decode, encode},
    settings::Settings,
    tenants::administration::{self, ActError, AdministrationEvent, TenantClosed},
    time::after,
};

/// How long settings are cached: a change reaches every worker within this time.
const CACHE_TIME: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    pub variables: BTreeMap<String, String>,
}

/// Settings of tenants that this process has read recently.
#[derive(Default)]
struct Cache(Mutex<HashMap<TenantId, (Timestamp, Arc<Settings>)>>);

/// The effective settings of each tenant.
#[derive(Clone)]
pub struct Tenants {
    store: Store,
    /// The settings of the installation.
    pub settings: Arc<Settings>,
    cache: Arc<Cache>,
}

impl Tenants {
    pub fn new(store: Store, settings: Arc<Settings>) -> Self {
        Self { store, settings, cache: Arc::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// Every error, each with the variable, the value and what is accepted.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    #[error(transparent)]
    Closed(TenantClosed),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<ActError> for TenantError {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Closed(closed) => Self::Closed(closed),
            ActError::Fault(fault) => Self::Fault(fault),
        }
    }
}

async fn find(tenants: &Tenants, tenant: &TenantId) -> Result<Option<Versioned<Overrides>>, Fault> {
    tenants.store.records.get(&record::overrides(tenant)).await?.as_ref().map(decode).transpose()
}

pub async fn overrides(tenants: &Tenants, tenant: &TenantId) -> Result<Overrides, Fault> {
    Ok(find(tenants, tenant).await?.map(|overrides| overrides.value).unwrap_or_default())
}

/// Returns the effective settings of a tenant.
pub async fn settings(tenants: &Tenants, tenant: &TenantId) -> Result<Arc<Settings>, Fault> {
    let now = tenants.store.clock.now();
    if let Some((at, settings)) = tenants.cache.0.lock().get(tenant)
        && now < after(*at, CACHE_TIME)
    {
        return Ok(settings.clone());
    }
    let overrides = overrides(tenants, tenant).await?;
    let settings = tenants.settings.overridden(&overrides.variables).unwrap_or_else(|faults| {
        // Checked when they were set, so another version wrote them.
        warn!(%tenant, faults = faults.join("; "), "invalid tenant settings: using those of the installation");
        tenants.settings.as_ref().clone()
    });
    let settings = Arc::new(settings);
    tenants.cache.0.lock().insert(tenant.clone(), (now, settings.clone()));
    Ok(settings)
}

/// Sets variables of a tenant, or removes them (`None`); returns all overrides of the tenant.
pub async fn change(
    tenants: &Tenants,
    tenant: &TenantId,
    changes: &[(String, Option<String>)],
    by: &str,
) -> Result<Overrides, TenantError> {
    loop {
        let before = find(tenants, tenant).await?;
        let mut next = before.as_ref().map(|before| before.value.clone()).unwrap_or_default();
        for (name, value) in changes {
            match value {
                Some(value) => next.variables.insert(name.clone(), value.clone()),
                None => next.variables.remove(name),
            };
        }
        tenants.settings.overridden(&next.variables).map_err(TenantError::Refused)?;
        let when = before.map_or(When::Absent, |before| When::Version(before.version));
        let put = Change::Put { draft: Draft::new(record::overrides(tenant), encode(&next)?), when };
        let names = |is_set: bool| {
            changes
                .iter()
                .filter(|(_, value)| value.is_some() == is_set)
                .map(|(name, _)| name.clone())
                .collect()
        };
        let event = AdministrationEvent::TenantChanged { set: names(true), unset: names(false) };
        let mut writes = vec![put];
        writes.extend(administration::changes_if_open(&tenants.store, tenant, by, event).await?);
        if tenants.store.write(writes).await? == Written::Applied {
            tenants.cache.0.lock().remove(tenant);
            return Ok(next);
        }
    }
}
