//! A tenant's credits: accounts, the ledger, purchases, and the saga that carries a purchase out.

pub mod account;
pub mod accounts;
pub mod buy;
pub mod purchase;
pub mod purchases;
pub(crate) mod telemetry;

use std::sync::Arc;

use crate::{
    events::Store,
    ports::{notifier::Notifier, payments::Payments, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// What purchases need.
#[derive(Clone)]
pub struct Billing {
    pub store: Store,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub vault: Arc<dyn Vault>,
    pub payments: Arc<dyn Payments>,
    pub notifier: Arc<dyn Notifier>,
}
