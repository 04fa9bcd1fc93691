//! The promise, kept by the real program: real processes, real files, a provider that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deadline;
mod failover;
mod kill;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;
