//! The circuit breaker of one provider:model, as a value: no clock, no lock, no store.
//!
//! Every call takes a [`Pass`] and reports its result with it. Failures in a row are counted one by one
//! until they open the breaker; a success clears the count. A pass carries the generation in which it
//! was taken; each opening, probe and closing starts a new one. So calls that were in flight when the
//! breaker opened belong to the same outage: a late result can neither close nor extend a breaker that
//! has changed since.
//!
//! The cooldown spares pages that have another model. Pages that have none lose nothing by asking: for
//! them the probe goes out earlier, as soon as the outage has lasted an eighth longer, or ten seconds.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    backoff::cooldown, event::DomainEvent, ids::Priority, lease::Lease, settings::BreakerPolicy, time::after,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    #[default]
    Closed,
    Open {
        until: Timestamp,
    },
    HalfOpen {
        probe: Option<Lease>,
        successes: u32,
    },
}

impl State {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    #[serde(flatten)]
    pub state: State,
    pub failures: u32,
    /// Openings in a row, each with a longer cooldown.
    pub trips: u32,
    pub generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// The first failure since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// It opened because of the settings, which no time repairs: a bad key, an unknown model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub misconfigured: bool,
    /// The provider's words may have another cause, which passes. Since when it has said nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_since: Option<Timestamp>,
    /// The failure that was counted last, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

/// The right to make one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    pub generation: u64,
    pub probe: bool,
}

/// The kind of failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Opens the breaker when it is one too many in a row.
    Transient,
    /// Opens it immediately.
    Configuration(Certainty),
}

/// How certain it is that a failure is one of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// A rejected or missing key.
    Certain,
    /// Gateways and providers also answer 403 and 404 for a while during a deployment.
    Doubtful,
}

/// Whether the page that wants to call a model has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    Normal,
    /// The breakers of all its models are open.
    NoOtherModel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Call; nothing needs to be stored.
    Go(Pass),
    /// Call after `next` was stored on condition that the breaker has not changed.
    Probe { pass: Pass, next: Breaker },
    /// Skip this model.
    Refused,
}

impl Breaker {
    /// The effective breaker: a record that has not changed for long expires. Its generation keeps
    /// counting, so that passes taken before stay invalid.
    pub fn current(&self, now: Timestamp, policy: &BreakerPolicy) -> Breaker {
        let open_until = match self.state {
            State::Open { until } => until,
            State::Closed | State::HalfOpen { .. } => Timestamp::MIN,
        };
        // After a cooldown that is longer than the expiry, a probe has the same time to be sent.
        let is_expired = self.changed_at.is_some_and(|at| {
            let expires_at = after(at, policy.reset_after);
            now >= if open_until < expires_at { expires_at } else { after(open_until, policy.reset_after) }
        });
        if is_expired && *self != Breaker::default() {
            return Breaker { generation: self.generation + 1, ..Breaker::default() };
        }
        self.clone()
    }

    pub fn admit(&self, holder: &str, urgency: Urgency, now: Timestamp, policy: &BreakerPolicy) -> Admission {
        let current = self.current(now, policy);
        let probe = |successes| {
            let lease = Lease::new(holder, now, policy.probe_lease);
            // A new generation, so that a probe whose lease expired can't report for its successor.
            let next = Breaker {
                state: State::HalfOpen { probe: Some(lease), successes },
                generation: current.generation + 1,
                changed_at: Some(now),
                ..current.clone()
            };
            let pass = Pass { generation: next.generation, probe: true };
            Admission::Probe { pass, next }
        };
        match &current.state {
            State::Closed => Admission::Go(Pass { generation: current.generation, probe: false }),
            State::Open { until } if now < current.probe_at(*until, urgency) => Admission::Refused,
            State::Open { .. } => probe(0),
            State::HalfOpen { probe: Some(lease), .. } if lease.is_valid(now) => Admission::Refused,
            State::HalfOpen { successes, .. } => probe(*successes),
        }
    }

    /// Whether a call would be admitted now. Takes no pass.
    pub fn lets_through(&self, urgency: Urgency, now: Timestamp, policy: &BreakerPolicy) -> bool {
        self.admit("", urgency, now, policy) != Admission::Refused
    }

    /// When a breaker that is open until `until` may be probed.
    fn probe_at(&self, until: Timestamp, urgency: Urgency) -> Timestamp {
        // Wrong settings that a probe has confirmed are not probed more often.
        let is_early = urgency == Urgency::NoOtherModel && !self.is_confirmed_misconfigured();
        let Some(opened_at) = self.changed_at.filter(|_| is_early) else { return until };
        let lasted = crate::time::until(self.failing_since.unwrap_or(opened_at), opened_at);
        let shortest = if self.misconfigured { MIN_CONFIGURATION_PAUSE } else { MIN_PROBE_PAUSE };
        until.min(after(opened_at, (lasted / EARLY_PROBE_SHARE).clamp(shortest, MAX_PROBE_PAUSE)))
    }

    /// The breaker after a success; `None` when nothing changes.
    pub fn succeeded(&self, pass: &Pass, now: Timestamp, policy: &BreakerPolicy) -> Option<Breaker> {
        let current = self.current(now, policy);
        if pass.generation != current.generation {
            return None;
        }
        match &current.state {
            State::Closed if current.failures == 0 => None,
            State::Closed => {
                Some(Breaker { failures: 0, failing_since: None, changed_at: Some(now), ..current })
            }
            State::Open { .. } => None,
            State::HalfOpen { .. } if !pass.probe => None,
            State::HalfOpen { successes, .. } if successes + 1 >= policy.half_open_successes => {
                Some(current.closed(now))
            }
            State::HalfOpen { successes, .. } => Some(Breaker {
                state: State::HalfOpen { probe: None, successes: successes + 1 },
                changed_at: Some(now),
                ..current.clone()
            }),
        }
    }

    /// The breaker after a call that was abandoned without a result; `None` unless it was the probe,
    /// which another worker may then send.
    pub fn given_up(&self, pass: &Pass, now: Timestamp) -> Option<Breaker> {
        match &self.state {
            State::HalfOpen { probe: Some(_), successes }
                if pass.probe && pass.generation == self.generation =>
            {
                let state = State::HalfOpen { probe: None, successes: *successes };
                Some(Breaker { state, changed_at: Some(now), ..self.clone() })
            }
            _ => None,
        }
    }

    /// The breaker after a failure; `None` when that outage was counted already.
    pub fn failed(
        &self,
        pass: &Pass,
        kind: FailureKind,
        cause: &str,
        now: Timestamp,
        policy: &BreakerPolicy,
    ) -> Option<Breaker> {
        let current = self.current(now, policy);
        if pass.generation != current.generation {
            return None;
        }
        let failures = current.failures + 1;
        let opens = match &current.state {
            State::Closed => kind != FailureKind::Transient || failures >= policy.failure_threshold,
            State::Open { .. } => return None,
            State::HalfOpen { .. } if !pass.probe => return None,
            State::HalfOpen { .. } => true,
        };
        let doubted_since = (kind == FailureKind::Configuration(Certainty::Doubtful))
            .then(|| current.doubted_since.unwrap_or(now));
        let next = Breaker {
            failures,
            misconfigured: kind != FailureKind::Transient,
            doubted_since,
            failing_since: current.failing_since.or(Some(now)),
            changed_at: Some(now),
            cause: cause.to_owned(),
            ..current.clone()
        };
        Some(if opens { next.opened(now, policy) } else { next })
    }

    fn opened(self, now: Timestamp, policy: &BreakerPolicy) -> Breaker {
        let trips = self.trips + 1;
        let until = after(now, cooldown(trips, policy.base_cooldown, policy.max_cooldown));
        Breaker { state: State::Open { until }, trips, generation: self.generation + 1, ..self }
    }

    /// When a call may be admitted, by what is known now; `None` when it may already.
    pub fn available_at(
        &self,
        urgency: Urgency,
        now: Timestamp,
        policy: &BreakerPolicy,
    ) -> Option<Timestamp> {
        let current = self.current(now, policy);
        match &current.state {
            State::Closed => None,
            State::Open { until } => Some(current.probe_at(*until, urgency)).filter(|at| now < *at),
            // The probe's result decides, and comes before its lease ends.
            State::HalfOpen { probe, .. } => {
                let lease = probe.as_ref().filter(|lease| lease.is_valid(now))?;
                Some(lease.until.min(after(now, PROBE_RECHECK)))
            }
        }
    }

    /// Whether probes have confirmed that the settings are wrong: until a person changes them, no call
    /// can succeed.
    pub fn is_confirmed_misconfigured(&self) -> bool {
        let is_old_enough = match (self.doubted_since, self.changed_at) {
            (Some(since), Some(opened_at)) => after(since, MIN_DOUBT) <= opened_at,
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_old_enough && self.misconfigured && self.trips > 1 && matches!(self.state, State::Open { .. })
    }

    /// Whether the model has answered after failures since `time`: the breaker closed, or its count was reset.
    pub fn has_recovered_since(&self, time: Timestamp) -> bool {
        self.state == State::Closed && self.failures == 0 && self.changed_at.is_some_and(|at| time < at)
    }

    fn closed(&self, now: Timestamp) -> Breaker {
        Breaker { generation: self.generation + 1, changed_at: Some(now), ..Breaker::default() }
    }
}

/// Where a page has no other model, a probe goes out when the outage has lasted this share longer.
const EARLY_PROBE_SHARE: u32 = 8;
/// The shortest and the longest pause before such a probe.
pub const MIN_PROBE_PAUSE: Duration = Duration::from_secs(1);
const MAX_PROBE_PAUSE: Duration = Duration::from_secs(10);
/// The shortest where the settings are wrong, as far as is known: a key may be in the middle of a change.
pub const MIN_CONFIGURATION_PAUSE: Duration = Duration::from_secs(5);
/// How long a provider has to say that the settings are wrong where that may pass.
const MIN_DOUBT: Duration = Duration::from_secs(30);
/// How soon a page looks again while a probe is in flight.
const PROBE_RECHECK: Duration = Duration::from_secs(2);

/// Events of a breaker's trail. Those of version 0.1 do not say the generation, nor whether it is misconfigured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum BreakerEvent {
    #[serde(rename = "breaker.opened")]
    Opened {
        until: Timestamp,
        cause: String,
        trips: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        misconfigured: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
    #[serde(rename = "breaker.half_open")]
    HalfOpen {
        holder: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
    #[serde(rename = "breaker.closed")]
    Closed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
}

impl DomainEvent for BreakerEvent {
    fn priority(&self) -> Option<Priority> {
        matches!(self, Self::Opened { .. }).then_some(Priority::Critical)
    }
}

/// The event of the transition from `before` to `after`, if there is one.
pub fn event_between(before: &Breaker, after: &Breaker) -> Option<BreakerEvent> {
    let generation = Some(after.generation);
    match (&before.state, &after.state) {
        (_, State::Open { until }) => Some(BreakerEvent::Opened {
            until: *until,
            cause: after.cause.clone(),
            trips: after.trips,
            misconfigured: Some(after.misconfigured),
            generation,
        }),
        (_, State::HalfOpen { probe: Some(lease), .. }) => {
            Some(BreakerEvent::HalfOpen { holder: lease.holder.clone(), generation })
        }
        (State::Open { .. } | State::HalfOpen { .. }, State::Closed) => {
            Some(BreakerEvent::Closed { generation })
        }
        (State::Closed, State::Closed) | (_, State::HalfOpen { probe: None, .. }) => None,
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
