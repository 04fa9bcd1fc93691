//! Deterministic ids and random numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use everypage_core::ports::ids::Ids;

/// Ids count up; random numbers are a fixed sequence.
#[derive(Default)]
pub struct CountingIds {
    next: AtomicU64,
    rolled: AtomicU64,
}

impl Ids for CountingIds {
    fn fresh(&self) -> String {
        format!("{:08}", self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn random_below(&self, bound: u64) -> u64 {
        let step = self.rolled.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if bound == 0 { 0 } else { step % bound }
    }
}
