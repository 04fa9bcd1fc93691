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
    /// A breaker whose record has not changed for this long is treated as new.
    pub reset_after: Duration,
    /// How long a probe may take before another worker may send one.
    pub probe_lease: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failure_threshold: 3,
            half_open_successes: 1,
            base_cooldown: Duration::from_secs(30),
            max_cooldown: Duration::from_secs(300),
            reset_after: Duration::from_secs(600),
            probe_lease: Duration::from_secs(150),
        }
    }
}

/// Time that a probe has after its call to report the outcome.
const REPORT_GRACE: Duration = Duration::from_secs(15);

impl BreakerPolicy {
    /// This policy for calls that take up to `timeout`: a probe that has not reported by then is lost.
    pub fn with_call_timeout(self, timeout: Duration) -> Self {
        Self { probe_lease: timeout + REPORT_GRACE, ..self }
    }
}
