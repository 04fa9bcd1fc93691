//! What Everypage promises, free of clouds, sockets and clocks.
//!
//! - [`domain`]: pure values and decisions (job life cycle, failover, breaker, results);
//! - [`ports`]: what the core asks of the world, and the guarantees it relies on;
//! - [`store`]: typed records over the one `Records` port;
//! - [`usecases`]: what happens to a document, step by step, shared by every engine;
//! - [`invariants`]: what must hold, for debug builds, tests and the simulation to ask;
//! - [`metrics`]: what is counted and measured on the way;
//! - `spans`: what is traced on the way.

pub mod app;
pub mod config;
pub mod domain;
pub mod invariants;
pub mod metrics;
pub mod ports;
mod spans;
pub mod store;
pub mod usecases;
