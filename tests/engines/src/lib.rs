//! The same stories on both engines: one machine, and the stack as it is deployed.
//!
//! A [story](stories) hands documents in, misbehaves, and tells in the end what became of its jobs. What it
//! tells is compared with a snapshot that both engines share, so they can't drift apart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bench;
pub mod cloud;
pub mod collector;
pub mod inbox;
pub mod local;
pub mod shell;
pub mod stories;
pub mod tale;

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
