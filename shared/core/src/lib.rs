//! The rules and guarantees of Everypage, without cloud SDKs, sockets or clocks.
//!
//! The modules ("rooms") follow the journey of a document. A room may use only the rooms listed
//! before it; `./test rooms` checks that, by the complete order in `scripts/check-rooms`.
//!
//! | room | holds |
//! | --- | --- |
//! | [`ids`], [`money`], [`source`], [`state`], [`document`], [`event`] and others | values without I/O |
//! | [`providers`] | providers, their models and the order of failover |
//! | [`ports`] | the interfaces that backends implement, and the guarantees that the core relies on |
//! | [`lease`], [`records`], [`keys`] | leases, versioned records, every record key and blob key |
//! | [`settings`], [`telemetry`] | configuration, metrics and spans |
//! | [`events`] | the store of events: trails and the outbox |
//! | [`tenants`], [`notices`] | tenants and API keys; notices to people |
//! | [`sagas`], [`billing`], [`erasures`] | the engine of sagas; credits and purchases; erasures of tenants |
//! | [`job`], [`dead_letters`] | what a job is; messages that were given up, with their reasons |
//! | [`intake`] | accept a document |
//! | [`prepare`] | open it, read its text, recognize scans, render images |
//! | [`plan`] | decide which pages go to AI |
//! | [`read`] | read one page: claim, round, breaker, slot, outcome |
//! | [`notify`] | relay events, deliver webhooks |
//! | [`finish`] | publish the result, heal it, verify it, delete it; erase a tenant |
//! | [`observe`] | figures and gauges |
//! | [`recover`] | redrive and sweep |
//! | [`app`] | all rooms, assembled once from the ports of a backend |
//!
//! In a room a singular file (`breaker.rs`) holds a model and its pure decisions, a plural file
//! (`breakers.rs`) the store of its records, and a verb (`finalize.rs`) a use case that reads,
//! decides and writes.

pub mod admission;
pub mod app;
pub mod backoff;
pub mod billing;
pub mod dead_letters;
pub mod digest;
pub mod document;
pub mod erasures;
pub mod event;
pub mod events;
pub mod finish;
pub mod ids;
pub mod intake;
pub mod invariants;
pub mod job;
pub mod keys;
pub mod lease;
pub mod money;
pub mod notices;
pub mod notify;
pub mod observe;
pub mod plan;
pub mod ports;
pub mod prepare;
pub mod providers;
pub mod read;
pub mod records;
pub mod recover;
pub mod safe_text;
pub mod sagas;
pub mod secret;
pub mod settings;
pub mod source;
pub mod state;
pub mod telemetry;
pub mod tenants;
pub mod time;
pub mod trace;
