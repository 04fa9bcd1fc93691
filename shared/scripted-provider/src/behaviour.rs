//! The ways in which the scripted provider responds or fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Limit;

/// The response to one call. The text form is in [`GRAMMAR`](super::GRAMMAR).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// The page's own text, and a line that names the model.
    #[default]
    Answer,
    AnswerText(String),
    /// An error in the provider's own JSON; 404 is an unknown model.
    Status(u16),
    /// An error with `Retry-After` in seconds.
    StatusWithRetryAfter {
        status: u16,
        retry_after: u32,
    },
    /// 429, with `Retry-After` in seconds where given.
    RateLimited {
        retry_after: Option<u32>,
        /// It says that tokens are what is limited.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        of_tokens: bool,
    },
    /// The tier of the call has no capacity now: a 429 from OpenAI, a 503 from Google.
    NoCapacity,
    /// The account has no credit left: a 429 from OpenAI, a 400 from Anthropic.
    Quota,
    /// The key does not exist: a 401 from OpenAI, a 400 from Google.
    BadKey,
    /// The model does not exist: a 404 from OpenAI, a 400 from Mistral.
    UnknownModel,
    /// No response until the client disconnects.
    Hang,
    Delay {
        ms: u64,
        then: Box<Behaviour>,
    },
    /// A delay of the lognormal distribution: half of them are shorter than `median_ms`, and with a
    /// larger sigma more of them are much longer.
    Lognormal {
        median_ms: u64,
        sigma_percent: u32,
        then: Box<Behaviour>,
    },
    /// The next rule that matches decides; a delay of this one is added to it.
    Next,
    /// 429 for calls above the limit; the next rule that matches decides about the others.
    Limit(Limit),
    /// A valid answer in chunks of `bytes` with a pause of `every_ms` before each but the first.
    SlowDrip {
        bytes: usize,
        every_ms: u64,
    },
    /// Announces a whole answer, sends half and closes the connection.
    HalfBody,
    /// Closes the connection without a response.
    Reset,
    /// 200 with a web page, as from a captive portal.
    Html,
    /// 200 with something that is not JSON.
    Garbage,
    /// 200 with JSON of another schema.
    WrongJson,
    /// A valid answer with this many bytes of text and no `content-length`.
    Huge {
        bytes: u64,
    },
    /// The model refuses.
    Refusal,
    /// The first half of the answer, cut off at the output limit.
    Truncated,
    /// One line, hundreds of times.
    Loop,
    /// A complete answer without text.
    Empty,
}

/// The default size of `huge`.
pub(super) const HUGE_BYTES: u64 = 10_000_000;
/// The defaults of `drip`: slower than any client waits.
pub(super) const DRIP_BYTES: usize = 1;
pub(super) const DRIP_EVERY_MS: u64 = 1000;

impl Behaviour {
    pub fn delayed(self, pause: Duration) -> Self {
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, then: Box::new(self) }
    }

    /// The total of the fixed delays around it, and the behaviour after them.
    pub(super) fn unwrapped(&self) -> (Duration, &Self) {
        let (mut pause, mut inner) = (Duration::ZERO, self);
        while let Self::Delay { ms, then } = inner {
            pause = pause.saturating_add(Duration::from_millis(*ms));
            inner = then;
        }
        (pause, inner)
    }

    /// The total of all delays, and the behaviour after them. `draw` has the normal distribution.
    pub(super) fn sampled(&self, mut draw: impl FnMut() -> f64) -> (Duration, &Self) {
        let (mut pause, mut inner) = self.unwrapped();
        while let Self::Lognormal { median_ms, sigma_percent, then } = inner {
            let seconds = *median_ms as f64 / 1000.0 * (f64::from(*sigma_percent) / 100.0 * draw()).exp();
            let (fixed, behaviour) = then.unwrapped();
            let sampled = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            pause = pause.saturating_add(sampled).saturating_add(fixed);
            inner = behaviour;
        }
        (pause, inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn lognormal(median_ms: u64, sigma_percent: u32) -> Behaviour {
        Behaviour::Lognormal { median_ms, sigma_percent, then: Box::new(Behaviour::Answer) }
    }

    #[test]
    fn lognormal_delays_have_their_median_and_a_long_tail() {
        let mut delays: Vec<Duration> =
            (0..1001).map(|call| lognormal(500, 60).sampled(|| Stream::Latency.normal(call)).0).collect();
        delays.sort();
        let seconds = |at: usize| delays[at].as_secs_f64();
        assert!((seconds(500) - 0.5).abs() < 0.05, "median {}", seconds(500));
        // exp(0.6 * 2.33) = 4.0
        assert!((1.6..2.6).contains(&seconds(990)), "99 of 100 {}", seconds(990));
    }

    #[test]
    fn delays_of_both_kinds_add_up() {
        let nested = lognormal(500, 0).delayed(Duration::from_millis(20));
        let (pause, then) = nested.sampled(|| 3.0);
        assert_eq!((pause, then), (Duration::from_millis(520), &Behaviour::Answer));
    }
}
