//! The audit trail: events, stored together with the state that they describe, and the outbox of
//! unpublished events.

pub mod invariants;
pub mod listing;
pub mod nodes;
pub mod outbox;
mod store;
pub mod trail;

pub use store::Store;
