//! The promise, kept by the real program: real processes, real files, a provider that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod bad_providers;
#[path = "../../../shared/pdf/tests/pdf/support/builder.rs"]
#[allow(dead_code, reason = "shared with the PDF reader's tests, which use more of it")]
mod builder;
mod deadline;
mod failover;
#[path = "../../../shared/pdf/tests/pdf/support/hostile.rs"]
#[allow(dead_code, reason = "shared with the PDF reader's tests, which use more of it")]
mod hostile;
mod kill;
mod privacy;
mod processes;
mod serve;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;
