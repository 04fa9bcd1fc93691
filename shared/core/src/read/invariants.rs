//! What must hold for pages, breakers and slots.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    breaker::{Breaker, State},
    outcome::Settlement,
};
use crate::{
    invariants::{Checked, check},
    time::after,
};

/// What an AI has read is not read again, and never lost.
pub fn read_once(before: Option<&Settlement>, next: &Settlement) -> Checked {
    let lost = before.is_some_and(|before| before.is_ai() && before != next);
    check(!lost, || "a page that an AI had read was settled again".into())
}

/// A probe that may still be on its way is not joined by another. Clocks may disagree by `spread`.
pub fn one_probe(before: &Breaker, next: &Breaker, now: Timestamp, spread: Duration) -> Checked {
    match (&before.state, &next.state) {
        (State::HalfOpen { probe: Some(first), .. }, State::HalfOpen { probe: Some(second), .. }) => {
            check(first.holder == second.holder || !first.alive(after(now, spread)), || {
                format!("{} probes while {} does", second.holder, first.holder)
            })
        }
        _ => Ok(()),
    }
}

/// Failures that were in flight together count once: each that counts starts a new generation.
pub fn counted_once(before: &Breaker, next: &Breaker) -> Checked {
    check(next.failures <= before.failures || next.generation > before.generation, || {
        format!("failure {} was counted in generation {} again", next.failures, next.generation)
    })
}

/// No more calls to one model at once than there may be.
pub fn fits(in_flight: usize, cap: usize) -> Checked {
    check(in_flight <= cap, || format!("{in_flight} calls in flight where {cap} may be"))
}
