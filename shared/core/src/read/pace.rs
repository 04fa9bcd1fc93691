//! The pace of one model, as a value: how many calls may be in flight, and until when none may start.
//!
//! The limit starts small and doubles while all slots are used and calls are answered; once also when calls
//! were accepted and their answers are still to come. A rate limit halves
//! it and pauses the model. Where calls had been answered before, what was in flight then, less the calls
//! that were refused, is what the provider takes: the limit returns to that **ceiling** in steps that get
//! smaller, stays there, and probes beyond it now and then.
//!
//! ```text
//!  limit
//!    64 |        x refused            ceiling 50
//!    50 |- - - -/| - - - - - - ,------------------- (probe) ...
//!    32 |     _/ |        ,--'
//!    16 |____/   |_pause_/
//!       +-------------------------------------------------> time
//! ```
//!
//! Calls carry the **generation** in which they started. The refusals of calls that were in flight
//! together belong to one generation and halve the limit once.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::latency::Latency;
use crate::{settings::MaxInflight, time::after};

/// The shortest time between two steps of growth; the usual one is the time of a call.
const MIN_WINDOW: Duration = Duration::from_millis(250);
/// How long the limit stays at the ceiling before it is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// A ceiling that was not confirmed for this long is dropped.
const EXPIRES_AFTER: Duration = Duration::from_secs(600);
/// Pauses where the provider does not say how long: 1 s, 2 s, 4 s.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_OWN_PAUSE: Duration = Duration::from_secs(4);
/// A pause because of headers is extended by at least this: each answer announces a time of its own.
const MIN_EXTENSION: Duration = Duration::from_secs(1);
/// Fewer calls in flight are not too many for a provider.
const MIN_CONGESTED: u32 = 4;
/// A limit at which the provider refused nothing for this long is one that it takes.
const STEADY_AFTER: Duration = Duration::from_secs(2);
/// Longest pause that a provider can ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    pub limit: u32,
    /// What the provider took when it last refused more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u32>,
    /// The ceiling before the limit was raised beyond it, to find out whether the provider takes more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<u32>,
    /// What a rate limit asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// When headers say that there is room again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_up_until: Option<Timestamp>,
    /// Rate limits since the last answer.
    #[serde(default)]
    pub refusals: u32,
    #[serde(default)]
    pub generation: u64,
    /// When the limit changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// As a process saw it when it wrote this record, for processes that have seen no call yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Pace {
    pub fn new(max: MaxInflight) -> Self {
        Self {
            limit: max.initial(),
            ceiling: None,
            confirmed: None,
            paused_until: None,
            used_up_until: None,
            refusals: 0,
            generation: 0,
            changed_at: None,
            latency: None,
        }
    }

    /// The effective pace: what was learned long ago is no longer true.
    pub fn current(&self, max: MaxInflight, now: Timestamp) -> Pace {
        let is_expired = self.changed_at.is_some_and(|at| now >= after(at, EXPIRES_AFTER));
        if !is_expired || self.ceiling.is_none() && self.limit >= max.initial() && self.refusals == 0 {
            return self.clone();
        }
        Pace {
            limit: self.limit.max(max.initial()),
            ceiling: None,
            confirmed: None,
            refusals: 0,
            ..self.clone()
        }
    }

    /// Calls that may be in flight; never more than the operator allows, whatever was stored before.
    pub fn limit(&self, max: MaxInflight) -> u32 {
        self.limit.clamp(1, max.max())
    }

    /// Until when no call may start; `None` when calls may.
    pub fn paused(&self, now: Timestamp) -> Option<Timestamp> {
        self.paused_until.max(self.used_up_until).filter(|until| now < *until)
    }

    /// The pace after an answer to a call that started in `generation`; `None` when nothing changes. A call
    /// that was taken while others of its wave were refused counts as well: the provider takes some.
    pub fn answered(&self, generation: u64) -> Option<Pace> {
        (self.refusals > 0 && generation + 1 >= self.generation).then(|| Pace { refusals: 0, ..self.clone() })
    }

    /// The pace with a higher limit, after a window in which all slots were used and no call was refused.
    /// `call` is the usual time of a call.
    pub fn grown(&self, call: Duration, max: MaxInflight, now: Timestamp) -> Option<Pace> {
        let window = call.max(MIN_WINDOW);
        let is_due = |time: Duration| self.changed_at.is_none_or(|at| now >= after(at, time));
        if self.refusals > 0 || !is_due(window) {
            return None;
        }
        let (limit, ceiling, confirmed) = match self.ceiling {
            None => (self.limit.saturating_mul(2), None, None),
            Some(ceiling) if self.limit < ceiling => {
                (self.limit + (ceiling - self.limit).div_ceil(2), Some(ceiling), None)
            }
            Some(ceiling) if is_due(PROBE_INTERVAL.max(window * 20)) => {
                let known = ceiling.max(self.limit);
                let raised = known + ceiling.div_ceil(10);
                (raised, Some(raised), Some(known))
            }
            Some(_) => return None,
        };
        let limit = limit.min(max.max());
        (limit > self.limit).then(|| Pace {
            limit,
            ceiling,
            confirmed,
            changed_at: Some(now),
            ..self.clone()
        })
    }

    /// The pace with a higher limit before the first answer, when calls have been in flight for so long that
    /// a provider would have refused them.
    pub fn accepted(&self, max: MaxInflight, now: Timestamp) -> Option<Pace> {
        let limit = self.limit.saturating_mul(2).min(MaxInflight::MAX_UNANSWERED).min(max.max());
        let is_new = self.changed_at.is_none() && self.refusals == 0 && self.ceiling.is_none();
        (is_new && limit > self.limit).then(|| Pace { limit, changed_at: Some(now), ..self.clone() })
    }

    /// The pace after a call that started in `generation` timed out, with `in_flight` calls of all workers:
    /// the provider may queue more calls than it can work on.
    pub fn congested(&self, generation: u64, in_flight: u32, now: Timestamp) -> Option<Pace> {
        let used = self.limit.min(in_flight);
        (generation == self.generation && used >= MIN_CONGESTED).then(|| Pace {
            limit: used / 2,
            ceiling: Some(self.ceiling.unwrap_or(used).min(used)),
            confirmed: None,
            generation: self.generation + 1,
            changed_at: Some(now),
            ..self.clone()
        })
    }

    /// The pace after a rate limit of a call that started in `generation`, with `in_flight` calls of all
    /// workers at that time, if calls of that generation were answered before: otherwise nothing is known of
    /// what the provider takes.
    pub fn rate_limited(
        &self,
        generation: u64,
        in_flight: Option<u32>,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> Option<Pace> {
        let requested = retry_after.map(|time| after(now, time.min(MAX_RETRY_AFTER)));
        if generation < self.generation {
            // One of several calls that were refused together.
            let is_same_wave = generation + 1 == self.generation && self.refusals == 1;
            let ceiling = match self.ceiling {
                // Where most calls were refused, what was taken says little about what could be.
                Some(ceiling) if is_same_wave => Some(ceiling - 1).filter(|lower| *lower >= self.limit),
                ceiling => ceiling,
            };
            let paused_until = self.paused_until.max(requested);
            let next = Pace { ceiling, paused_until, ..self.clone() };
            return (next != *self).then_some(next);
        }
        let used = in_flight.map_or(self.limit, |in_flight| self.limit.min(in_flight.max(1)));
        if let Some(limit) = self.known_limit(used, now) {
            return Some(Pace {
                limit,
                ceiling: Some(limit),
                confirmed: None,
                paused_until: self.paused_until.max(requested),
                generation: self.generation + 1,
                changed_at: Some(now),
                ..self.clone()
            });
        }
        let refusals = self.refusals.saturating_add(1);
        let own = FIRST_PAUSE * 2u32.saturating_pow(refusals.saturating_sub(1).min(8));
        let until = requested.unwrap_or_else(|| after(now, own.min(MAX_OWN_PAUSE)));
        // Further refusals before an answer are those of a slow recovery, not of another limit.
        let ceiling = match in_flight {
            Some(_) if self.refusals == 0 => Some((used - 1).max(1)),
            _ => self.ceiling,
        };
        Some(Pace {
            limit: (used / 2).max(1),
            ceiling,
            confirmed: None,
            paused_until: self.paused_until.max(Some(until)),
            refusals,
            generation: self.generation + 1,
            changed_at: Some(now),
            ..self.clone()
        })
    }

    /// The limit that a refusal with `used` calls in flight says nothing new about: the one before it was raised to
    /// find out whether the provider takes more, or one that was kept to for some time, when the provider still
    /// counts a call that has just ended.
    fn known_limit(&self, used: u32, now: Timestamp) -> Option<u32> {
        if let Some(confirmed) = self.confirmed.filter(|confirmed| used > *confirmed) {
            return Some(confirmed);
        }
        let is_steady =
            self.refusals == 0 && self.changed_at.is_some_and(|at| now >= after(at, STEADY_AFTER));
        self.ceiling.filter(|ceiling| is_steady && *ceiling == self.limit && used >= *ceiling)
    }

    /// The pace when the provider's headers say that nothing is left until `until`; `None` when it is paused
    /// for about as long already.
    pub fn used_up(&self, until: Timestamp) -> Option<Pace> {
        let paused = self.paused_until.max(self.used_up_until);
        let is_longer = paused.is_none_or(|paused| after(paused, MIN_EXTENSION) <= until);
        is_longer.then(|| Pace { used_up_until: Some(until), ..self.clone() })
    }

    /// The pace when the headers of an answer say that there is room for calls; `None` unless it is paused because
    /// headers said otherwise. What a rate limit asked for stays.
    pub fn refilled(&self, now: Timestamp) -> Option<Pace> {
        let is_used_up = self.used_up_until.is_some_and(|until| now < until);
        is_used_up.then(|| Pace { used_up_until: None, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALL: Duration = Duration::from_millis(500);

    fn at(seconds: f64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    #[test]
    fn the_limit_doubles_until_the_first_refusal() {
        let mut pace = Pace::new(MaxInflight::Auto);
        let mut limits = vec![pace.limit];
        for step in 0..8 {
            if let Some(next) = pace.grown(CALL, MaxInflight::Auto, at(f64::from(step) * 0.5)) {
                limits.push(next.limit);
                pace = next;
            }
        }
        assert_eq!(limits, [24, 48, 96, 192, 384, 512]);
    }

    #[test]
    fn it_grows_once_before_the_first_answer() {
        let pace = Pace::new(MaxInflight::Auto).accepted(MaxInflight::Auto, at(0.1)).unwrap();
        assert_eq!((pace.limit, pace.accepted(MaxInflight::Auto, at(9.0))), (48, None));
        let refused = Pace::new(MaxInflight::Auto).rate_limited(0, None, None, at(0.0)).unwrap();
        assert_eq!(refused.accepted(MaxInflight::Auto, at(9.0)), None);
        let max = MaxInflight::AtMost(3);
        assert_eq!(Pace::new(max).accepted(max, at(1.0)), None);
    }

    /// A server that queues 24 calls and works on one: those that it can't answer in time are not sent.
    #[test]
    fn timeouts_halve_the_limit_once_for_calls_that_started_together() {
        let mut pace = Pace::new(MaxInflight::Auto);
        for _ in 0..9 {
            pace = pace.congested(0, 24, at(120.0)).unwrap_or(pace);
        }
        assert_eq!(Pace::new(MaxInflight::Auto).congested(0, 3, at(120.0)), None, "too few to be too many");
        assert_eq!((pace.limit, pace.ceiling, pace.generation, pace.paused_until), (12, Some(24), 1, None));
    }

    #[test]
    fn it_grows_once_per_window() {
        let pace = Pace::new(MaxInflight::Auto).grown(CALL, MaxInflight::Auto, at(0.0)).unwrap();
        assert_eq!(pace.grown(CALL, MaxInflight::Auto, at(0.4)), None);
        assert!(pace.grown(CALL, MaxInflight::Auto, at(0.5)).is_some());
    }

    /// 64 calls to a provider that takes 50: the limit comes back to 50 and stays there.
    #[test]
    fn a_wave_of_refusals_halves_once_and_finds_what_the_provider_takes() {
        let mut pace = Pace { limit: 64, ..Pace::new(MaxInflight::Auto) };
        for refused in 0..14 {
            pace = pace.rate_limited(0, Some(64 - refused), None, at(1.0)).unwrap();
        }
        assert_eq!((pace.limit, pace.ceiling, pace.generation), (32, Some(50), 1));
        assert_eq!(pace.paused(at(1.5)), Some(at(2.0)));
        assert_eq!(pace.paused(at(2.0)), None);
        assert_eq!(pace.grown(CALL, MaxInflight::Auto, at(3.0)), None, "no call was answered yet");
        pace = pace.answered(1).unwrap();
        let mut limits = vec![];
        for step in 0..12 {
            if let Some(next) = pace.grown(CALL, MaxInflight::Auto, at(3.0 + f64::from(step))) {
                limits.push(next.limit);
                pace = next;
            }
        }
        assert_eq!(limits, [41, 46, 48, 49, 50]);
        assert_eq!(pace.grown(CALL, MaxInflight::Auto, at(33.0)), None);
        assert_eq!(pace.grown(CALL, MaxInflight::Auto, at(60.0)).unwrap().limit, 55);
    }

    #[test]
    fn a_refused_attempt_at_more_costs_nothing_of_what_is_known() {
        let at_ceiling =
            Pace { limit: 50, ceiling: Some(50), changed_at: Some(at(0.0)), ..Pace::new(MaxInflight::Auto) };
        let raised = at_ceiling.grown(CALL, MaxInflight::Auto, at(30.0)).unwrap();
        assert_eq!((raised.limit, raised.ceiling, raised.confirmed), (55, Some(55), Some(50)));
        let mut pace = raised.clone();
        for refused in 0..5 {
            pace = pace.rate_limited(0, Some(55 - refused), None, at(31.0)).unwrap_or(pace);
        }
        assert_eq!((pace.limit, pace.ceiling, pace.paused(at(31.0)), pace.refusals), (50, Some(50), None, 0));
        assert_eq!(
            raised.rate_limited(0, Some(55), Some(CALL), at(31.0)).unwrap().paused(at(31.0)),
            Some(at(31.5))
        );
        // Fewer than what was known: the provider takes less now.
        assert_eq!(raised.rate_limited(0, Some(40), None, at(31.0)).unwrap().limit, 20);
    }

    /// The provider still counts a call that has just ended: 49 would be one wave more for 400 pages.
    #[test]
    fn one_refusal_at_a_limit_that_was_kept_for_long_changes_nothing() {
        let steady =
            Pace { limit: 50, ceiling: Some(50), changed_at: Some(at(0.0)), ..Pace::new(MaxInflight::Auto) };
        let once = steady.rate_limited(0, Some(50), None, at(5.0)).unwrap();
        assert_eq!(
            (once.limit, once.ceiling, once.paused(at(5.0)), once.generation),
            (50, Some(50), None, 1)
        );
        let twice = once.rate_limited(1, Some(50), None, at(6.0)).unwrap();
        assert_eq!((twice.limit, twice.ceiling, twice.refusals), (25, Some(49), 1));
        assert_eq!(steady.rate_limited(0, Some(50), None, at(1.0)).unwrap().limit, 25);
    }

    #[test]
    fn a_wave_that_is_refused_as_a_whole_says_nothing_about_the_ceiling() {
        let mut pace = Pace::new(MaxInflight::Auto);
        for _ in 0..16 {
            pace = pace.rate_limited(0, None, None, at(0.0)).unwrap_or(pace);
        }
        assert_eq!((pace.limit, pace.ceiling), (12, None));
        let pace = pace.answered(1).unwrap().grown(CALL, MaxInflight::Auto, at(5.0)).unwrap();
        assert_eq!(pace.limit, 24);
    }

    #[test]
    fn what_was_learned_expires() {
        let pace = Pace::new(MaxInflight::Auto).rate_limited(0, Some(2), None, at(0.0)).unwrap();
        assert_eq!(pace.current(MaxInflight::Auto, at(599.0)), pace);
        let later = pace.current(MaxInflight::Auto, at(600.0));
        assert_eq!((later.limit, later.ceiling, later.generation), (MaxInflight::INITIAL, None, 1));
    }

    #[test]
    fn pauses_are_as_long_as_the_provider_asks_or_double() {
        let mut pace = Pace::new(MaxInflight::Auto);
        let mut pauses = vec![];
        for generation in 0..5 {
            pace = pace.rate_limited(generation, Some(16), None, at(0.0)).unwrap();
            pauses.push(pace.paused_until.unwrap().as_second());
        }
        assert_eq!(pauses, [1, 2, 4, 4, 4]);
        let paused = Pace::new(MaxInflight::Auto);
        let paused = paused.rate_limited(0, Some(16), Some(Duration::from_secs(20)), at(0.0)).unwrap();
        assert_eq!(paused.paused_until, Some(at(20.0)));
        let forever = paused.rate_limited(1, Some(1), Some(Duration::MAX), at(0.0)).unwrap();
        assert_eq!(forever.paused_until, Some(after(at(0.0), MAX_RETRY_AFTER)));
    }

    #[test]
    fn a_number_of_the_operator_is_kept() {
        let max = MaxInflight::AtMost(3);
        assert_eq!(Pace::new(max).limit(max), 3);
        assert_eq!(Pace::new(max).grown(CALL, max, at(9.0)), None);
        assert_eq!(Pace { limit: 64, ..Pace::new(max) }.limit(max), 3);
    }

    #[test]
    fn headers_pause_without_halving() {
        let pace = Pace::new(MaxInflight::Auto).used_up(at(6.0)).unwrap();
        assert_eq!((pace.limit, pace.paused(at(1.0)), pace.generation), (24, Some(at(6.0)), 0));
        assert_eq!(pace.used_up(at(5.0)), None);
    }

    #[test]
    fn headers_that_announce_room_end_the_pause_that_headers_began() {
        let pace = Pace::new(MaxInflight::Auto).used_up(at(20.0)).unwrap();
        assert_eq!(pace.refilled(at(1.0)).unwrap().paused(at(1.0)), None);
        assert_eq!(pace.refilled(at(20.0)), None, "it is over");
        // What a refused call was asked to wait is kept.
        let asked = Pace::new(MaxInflight::Auto);
        let asked = asked.rate_limited(0, None, Some(Duration::from_secs(9)), at(0.0)).unwrap();
        assert_eq!(asked.refilled(at(1.0)), None);
        let both = asked.used_up(at(20.0)).unwrap();
        assert_eq!(both.paused(at(1.0)), Some(at(20.0)));
        assert_eq!(both.refilled(at(1.0)).unwrap().paused(at(1.0)), Some(at(9.0)));
    }

    proptest! {
        /// Whatever happens, the limit stays between 1 and the maximum, and a pause is never shortened.
        #[test]
        fn the_limit_stays_in_its_bounds(events in prop::collection::vec((0u8..4, 0u32..600, 0u64..100), 1..200), limit in 1u32..100) {
            let max = MaxInflight::AtMost(limit);
            let mut pace = Pace::new(max);
            let mut now = Timestamp::UNIX_EPOCH;
            for (event, in_flight, seconds) in events {
                now = after(now, Duration::from_millis(seconds * 37));
                let next = match event {
                    0 => pace.rate_limited(pace.generation, (in_flight % 3 > 0).then_some(in_flight), None, now),
                    1 => pace.rate_limited(pace.generation.saturating_sub(1), Some(in_flight), Some(Duration::from_secs(seconds)), now),
                    2 => pace.answered(pace.generation),
                    _ => pace.grown(Duration::from_millis(500), max, now),
                };
                if let Some(next) = next {
                    prop_assert!(next.paused_until >= pace.paused_until);
                    pace = next;
                }
                prop_assert!(pace.limit >= 1 && pace.limit(max) <= limit, "{pace:?}");
                prop_assert!(pace.ceiling.is_none_or(|ceiling| ceiling >= 1));
            }
        }
    }
}
