//! The adapter over real sockets: against the scripted provider, and against a canned server where the
//! bytes of a request matter.

#![expect(clippy::unwrap_used, reason = "a failed setup should fail the test")]

mod behaviours;
mod limits;
mod secrets;
mod support;
mod wire;
