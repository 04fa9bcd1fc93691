//! Webhooks, notices and payments over real sockets.

#![expect(clippy::unwrap_used, reason = "a failed setup should fail the test")]

mod logs;
mod notices;
mod payments;
mod webhooks;
