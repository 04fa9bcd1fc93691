//! The adapter over real sockets: against the scripted provider, and where a request's own bytes
//! matter against a canned server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod behaviours;
mod canned;
mod hooks;
mod limits;
mod payments;
mod secrets;
mod support;
mod wire;
