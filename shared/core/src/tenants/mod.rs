//! Tenants: their overrides of settings, their callers and API keys.

pub mod administration;
pub mod api_keys;
pub mod caller;
mod overrides;

pub use overrides::*;
