//! The ways in which the scripted provider responds or fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// 429, with `Retry-After` in seconds where given.
    RateLimited {
        retry_after: Option<u32>,
    },
    /// The account has no credit left: a 429 from OpenAI, a 400 from Anthropic.
    Quota,
    /// No response until the client disconnects.
    Hang,
    Delay {
        ms: u64,
        then: Box<Behaviour>,
    },
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

    /// The total delay, and the behaviour after it.
    pub(super) fn unwrapped(&self) -> (Duration, &Self) {
        let (mut pause, mut inner) = (Duration::ZERO, self);
        while let Self::Delay { ms, then } = inner {
            pause = pause.saturating_add(Duration::from_millis(*ms));
            inner = then;
        }
        (pause, inner)
    }
}
