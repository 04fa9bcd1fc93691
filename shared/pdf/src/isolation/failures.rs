//! Counts of failed child processes, by cause.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::process::ChildFailure;

/// The exit code of a Rust program that panicked.
const PANIC_EXIT_CODE: i32 = 101;

/// Number of child processes that did not complete a request, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildFailures {
    /// Ended by a signal or an error exit: the parser crashed on the file.
    pub crashed: u64,
    pub timed_out: u64,
    /// Ended by a panic: a bug in our own code.
    pub panicked: u64,
    /// Sent a reply that does not match the request.
    pub invalid_replies: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    crashed: AtomicU64,
    timed_out: AtomicU64,
    panicked: AtomicU64,
    invalid_replies: AtomicU64,
}

impl Counters {
    pub fn count(&self, failure: &ChildFailure) {
        let counter = match failure {
            ChildFailure::TimedOut(_) => &self.timed_out,
            ChildFailure::Exited(Some(status)) if status.code() == Some(PANIC_EXIT_CODE) => &self.panicked,
            ChildFailure::Exited(_) => &self.crashed,
            ChildFailure::InvalidReply => &self.invalid_replies,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> ChildFailures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ChildFailures {
            crashed: read(&self.crashed),
            timed_out: read(&self.timed_out),
            panicked: read(&self.panicked),
            invalid_replies: read(&self.invalid_replies),
        }
    }
}
