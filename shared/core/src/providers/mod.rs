//! Providers and their models, and the order in which they are tried.

pub mod failover;
pub mod target;
