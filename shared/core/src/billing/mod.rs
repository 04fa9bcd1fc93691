//! The credits of a tenant: accounts, the ledger, and purchases, which are sagas.

pub mod account;
pub mod accounts;
pub mod buy;
pub mod drift;
pub mod purchase;
pub mod purchases;
pub mod repair;
pub(crate) mod telemetry;
pub mod verify;

use std::sync::Arc;

use crate::{
    events::Store,
    ports::{payments::Payments, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// The ports and settings that purchases use.
#[derive(Clone)]
pub struct Billing {
    pub store: Store,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub vault: Arc<dyn Vault>,
    pub payments: Arc<dyn Payments>,
}
