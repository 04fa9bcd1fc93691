//! Work that was given up, with its reason, kept for a person to redrive or purge.

pub mod add;
pub mod fail;
mod store;

pub use store::*;
