//! The audit trail: events, their storage with the state that they describe, and the outbox of unpublished ones.

pub mod event;
pub mod listing;
pub mod nodes;
pub mod outbox;
pub mod trail;
