//! Relays stored events to the event bus, and sends them to the webhooks of tenants.

pub mod deliver;
pub mod receivers;
pub mod relay;
pub mod subscriptions;
pub mod webhook;
pub mod webhooks;

use std::sync::Arc;

use tokio::sync::Notify;

use crate::{
    dead_letters::DeadLetters,
    events::Store,
    notify::subscriptions::Subscriptions,
    ports::{bus::Bus, hooks::Hooks, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// The ports with which events are relayed and webhooks delivered.
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
    pub subscriptions: Arc<Subscriptions>,
}

impl Publisher {
    /// Wakes the webhook sender of this process, because a delivery is due.
    pub fn wake_sender(&self) {
        self.webhook_due.notify_one();
    }

    /// Completes when [`Publisher::wake_sender`] was called since the last time.
    pub async fn webhook_enqueued(&self) {
        self.webhook_due.notified().await;
    }
}
