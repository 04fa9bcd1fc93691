//! Invariants of pages, breakers and slots.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    breaker::{Breaker, MIN_CONFIGURATION_PAUSE, MIN_PROBE_PAUSE, State},
    outcome::Settlement,
};
use crate::{
    invariants::{Checked, check},
    time::after,
};

/// A page that a model has read is not read again, and its text is never lost.
pub fn read_once(before: Option<&Settlement>, next: &Settlement) -> Checked {
    let lost = before.is_some_and(|before| before.is_ai() && before != next);
    check(!lost, || "a page that a model had read was settled again".into())
}

/// While a probe may be in flight there is no second one. Clocks may differ by `spread`.
pub fn one_probe(before: &Breaker, next: &Breaker, now: Timestamp, spread: Duration) -> Checked {
    match (&before.state, &next.state) {
        (State::HalfOpen { probe: Some(first), .. }, State::HalfOpen { probe: Some(second), .. }) => {
            check(first.holder == second.holder || !first.is_valid(after(now, spread)), || {
                format!("{} probes while {} does", second.holder, first.holder)
            })
        }
        _ => Ok(()),
    }
}

/// An open breaker is not probed before its cooldown is over; for a page without another model not before
/// the shortest pause.
pub fn probed_late_enough(before: &Breaker, next: &Breaker) -> Checked {
    let (State::Open { until }, State::HalfOpen { .. }) = (&before.state, &next.state) else {
        return Ok(());
    };
    let (Some(opened), Some(probed)) = (before.changed_at, next.changed_at) else { return Ok(()) };
    let pause = if before.misconfigured { MIN_CONFIGURATION_PAUSE } else { MIN_PROBE_PAUSE };
    let earliest =
        if before.is_confirmed_misconfigured() { *until } else { after(opened, pause).min(*until) };
    check(probed >= earliest, || format!("a breaker that opened at {opened} was probed at {probed}"))
}

/// Failures of calls that were in flight when a breaker opened belong to the same outage: an open breaker is
/// not opened again, and its cooldown is not extended.
pub fn opened_once(before: &Breaker, next: &Breaker) -> Checked {
    let (State::Open { until: first }, State::Open { until: second }) = (&before.state, &next.state) else {
        return Ok(());
    };
    check(first == second && before.trips == next.trips, || {
        format!("a breaker that is open until {first} was opened again until {second}")
    })
}

/// There are no more concurrent calls to one model than its limit.
pub fn fits(in_flight: usize, cap: usize) -> Checked {
    check(in_flight <= cap, || format!("{in_flight} calls in flight, over the limit of {cap}"))
}
