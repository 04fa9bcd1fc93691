//! Scenarios that run on both backends: local, and the stack as it is deployed on AWS.
//!
//! A [scenario](scenarios) uploads documents, injects faults, and summarizes its jobs at the end. The summary
//! is compared with a snapshot that both backends share, so they can't diverge.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod cli;
pub mod collector;
pub mod deployed_stack;
pub mod inbox;
pub mod local;
pub mod scenarios;
pub mod summary;
pub mod test_backend;

use std::path::PathBuf;

/// A program of this workspace, built for the same profile as this test.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(path.exists(), "{name} is not built: cargo build --workspace --bins, or ./test");
    path
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
