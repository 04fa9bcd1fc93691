//! The webhooks of each tenant, as this process knows them: every event asks for them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    events::Store,
    ids::TenantId,
    notify::webhooks::{self, Webhook},
    ports::Fault,
    time::after,
};

/// How long a webhook that another process added or changed is not known here.
pub const MAX_AGE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Subscriptions {
    known: Mutex<HashMap<TenantId, Known>>,
}

struct Known {
    until: Timestamp,
    webhooks: Arc<[Webhook]>,
}

impl Subscriptions {
    /// The tenant's webhooks, at most [`MAX_AGE`] old.
    pub async fn of(&self, store: &Store, tenant: &TenantId) -> Result<Arc<[Webhook]>, Fault> {
        let now = store.clock.now();
        let known =
            self.known.lock().get(tenant).filter(|known| now < known.until).map(|it| it.webhooks.clone());
        match known {
            Some(webhooks) => Ok(webhooks),
            None => self.read(store, tenant).await,
        }
    }

    /// The tenant's webhooks as they are now.
    pub async fn read(&self, store: &Store, tenant: &TenantId) -> Result<Arc<[Webhook]>, Fault> {
        let webhooks: Arc<[Webhook]> = webhooks::list(store, tenant).await?.into();
        let now = store.clock.now();
        let mut known = self.known.lock();
        known.retain(|_, known| now < known.until);
        known.insert(tenant.clone(), Known { until: after(now, MAX_AGE), webhooks: webhooks.clone() });
        Ok(webhooks)
    }
}
