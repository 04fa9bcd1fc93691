//! Telling the outside world: the relay of stored events to the bus, and webhooks.

pub mod deliver;
pub mod relay;
pub mod webhook;
pub mod webhooks;

use std::sync::Arc;

use tokio::sync::Notify;

use crate::{
    dead_letters::DeadLetters,
    events::Store,
    ports::{bus::Bus, hooks::Hooks, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// What relaying events and delivering webhooks needs.
#[derive(Clone)]
pub struct Publisher {
    pub store: Store,
    pub bus: Arc<dyn Bus>,
    pub hooks: Arc<dyn Hooks>,
    pub vault: Arc<dyn Vault>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub dead_letters: DeadLetters,
    pub webhook_due: Arc<Notify>,
}

impl Publisher {
    /// Wakes the sender of this process: a webhook is due.
    pub fn announced(&self) {
        self.webhook_due.notify_one();
    }

    /// Ends when a webhook became due since the last call.
    pub async fn announcement(&self) {
        self.webhook_due.notified().await;
    }
}
