//! The guarantees of the program: real processes, real files, a provider that fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod bad_providers;
mod deadline;
mod failover;
mod fairness;
mod kill;
mod privacy;
mod processes;
mod serve;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;

use everypage_hostile::{builder, pages as hostile};
