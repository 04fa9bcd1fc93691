//! The audit trail: events, their storage with the state that they describe, and the outbox of unpublished ones.

pub mod invariants;
pub mod listing;
pub mod nodes;
pub mod outbox;
mod store;
pub mod trail;

pub use store::Store;
