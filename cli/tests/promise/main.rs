//! The promise, kept by the real program: real processes, real files, a provider that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod bad_providers;
mod deadline;
mod failover;
mod kill;
mod privacy;
mod processes;
mod serve;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;
mod torture;

use everypage_hostile::{builder, pages as hostile};
