//! When a circuit breaker opens, and for how long.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures in a row that open the breaker.
    pub failure_threshold: u32,
    /// Successful probes that close it.
    pub half_open_successes: u32,
    pub base_cooldown: Duration,
    pub max_cooldown: Duration,
    /// A record not changed for this long is as good as none.
    pub forget_after: Duration,
    /// How long a probe may take before another worker may send one.
    pub probe_lease: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failure_threshold: 1,
            half_open_successes: 1,
            base_cooldown: Duration::from_secs(30),
            max_cooldown: Duration::from_secs(300),
            forget_after: Duration::from_secs(600),
            probe_lease: Duration::from_secs(150),
        }
    }
}

/// After its call has ended a probe has this long to report the outcome.
const TO_REPORT: Duration = Duration::from_secs(15);

impl BreakerPolicy {
    /// The same where a call may take so long: a probe that has not reported by then never will.
    pub fn for_calls_of(self, longest: Duration) -> Self {
        Self { probe_lease: longest + TO_REPORT, ..self }
    }
}
