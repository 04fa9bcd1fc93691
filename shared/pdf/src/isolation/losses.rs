//! Counts the children that were lost, by how.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::worker::Lost;

/// How a Rust program ends that panicked.
const PANICKED: i32 = 101;

/// Children that did not answer what they were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Ended by a signal, or at once: the parser met what it could not take.
    pub crashed: u64,
    pub timed_out: u64,
    /// Ended by a panic, so by a mistake in our own code.
    pub panicked: u64,
    /// Answered what makes no sense.
    pub confused: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    crashed: AtomicU64,
    timed_out: AtomicU64,
    panicked: AtomicU64,
    confused: AtomicU64,
}

impl Counters {
    pub fn count(&self, lost: &Lost) {
        let counter = match lost {
            Lost::TimedOut(_) => &self.timed_out,
            Lost::Ended(Some(status)) if status.code() == Some(PANICKED) => &self.panicked,
            Lost::Ended(_) => &self.crashed,
            Lost::Confused => &self.confused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Losses {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Losses {
            crashed: read(&self.crashed),
            timed_out: read(&self.timed_out),
            panicked: read(&self.panicked),
            confused: read(&self.confused),
        }
    }
}
