//! What a tenant wants otherwise than the installation: variables with values of its own.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
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
    time::after,
};

/// A change reaches every worker within this.
const CACHED_FOR: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    pub variables: BTreeMap<String, String>,
}

/// Tenants' settings that this process has read lately.
#[derive(Default)]
struct Cache(Mutex<HashMap<TenantId, (Timestamp, Arc<Settings>)>>);

/// Settings as they hold for each tenant.
#[derive(Clone)]
pub struct Tenants {
    store: Store,
    /// Of the installation.
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
    /// Every mistake, each naming the variable, the value and what is accepted.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    #[error(transparent)]
    Fault(#[from] Fault),
}

async fn find(tenants: &Tenants, tenant: &TenantId) -> Result<Option<Versioned<Overrides>>, Fault> {
    tenants.store.records.get(&record::overrides(tenant)).await?.as_ref().map(decode).transpose()
}

pub async fn overrides(tenants: &Tenants, tenant: &TenantId) -> Result<Overrides, Fault> {
    Ok(find(tenants, tenant).await?.map(|kept| kept.value).unwrap_or_default())
}

/// The settings that hold for a tenant.
pub async fn settings(tenants: &Tenants, tenant: &TenantId) -> Result<Arc<Settings>, Fault> {
    let now = tenants.store.clock.now();
    if let Some((at, settings)) = tenants.cache.0.lock().await.get(tenant)
        && now < after(*at, CACHED_FOR)
    {
        return Ok(settings.clone());
    }
    let overrides = overrides(tenants, tenant).await?;
    let settings = tenants.settings.overridden(&overrides.variables).unwrap_or_else(|faults| {
        // Checked when it was set, so written by another version: the installation's settings hold.
        warn!(%tenant, faults = faults.join("; "), "a tenant's settings can't be used");
        tenants.settings.as_ref().clone()
    });
    let settings = Arc::new(settings);
    tenants.cache.0.lock().await.insert(tenant.clone(), (now, settings.clone()));
    Ok(settings)
}

/// Sets variables of a tenant, or takes them back (`None`); answers with all that it then has.
pub async fn change(
    tenants: &Tenants,
    tenant: &TenantId,
    changes: &[(String, Option<String>)],
) -> Result<Overrides, TenantError> {
    loop {
        let before = find(tenants, tenant).await?;
        let mut next = before.as_ref().map(|kept| kept.value.clone()).unwrap_or_default();
        for (name, value) in changes {
            match value {
                Some(value) => next.variables.insert(name.clone(), value.clone()),
                None => next.variables.remove(name),
            };
        }
        tenants.settings.overridden(&next.variables).map_err(TenantError::Refused)?;
        let when = before.map_or(When::Absent, |kept| When::Version(kept.version));
        let put = Change::Put { draft: Draft::new(record::overrides(tenant), encode(&next)?), when };
        if tenants.store.write(vec![put]).await? == Written::Applied {
            tenants.cache.0.lock().await.remove(tenant);
            return Ok(next);
        }
    }
}
