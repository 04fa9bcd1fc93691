//! The ways in which the scripted provider answers, or does not.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one call gets. The text form is in the [module's docs](super).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// The page's own words, and a line that names the model.
    #[default]
    Answer,
    AnswerText(String),
    /// An error in the vendor's own JSON; 404 is an unknown model.
    Status(u16),
    /// 429, with `Retry-After` in seconds where given.
    RateLimited {
        retry_after: Option<u32>,
    },
    /// The account is out of money: OpenAI says it with a 429, Anthropic with a 400.
    Quota,
    /// Says nothing until the client leaves.
    Hang,
    Delay {
        ms: u64,
        then: Box<Behaviour>,
    },
    /// A good answer in pieces of `bytes` with a pause of `every_ms` before each but the first.
    SlowDrip {
        bytes: usize,
        every_ms: u64,
    },
    /// Promises a whole answer, sends half and closes the connection.
    HalfBody,
    /// Closes the connection without a response.
    Reset,
    /// 200 with a web page, as from a captive portal.
    Html,
    /// 200 with something that is not JSON.
    Garbage,
    /// 200 with JSON of another shape.
    WrongJson,
    /// A valid answer with this many bytes of text, of unannounced length.
    Huge {
        bytes: u64,
    },
    /// The model declines.
    Refusal,
    /// The first half of the answer, cut off at the output limit.
    Truncated,
    /// One line, hundreds of times.
    Loop,
    /// A complete answer without a word.
    Empty,
}

/// What `huge` sends where no size is given.
pub(super) const HUGE_BYTES: u64 = 10_000_000;
/// What `drip` does where nothing else is said: slower than anyone waits for.
pub(super) const DRIP_BYTES: usize = 1;
pub(super) const DRIP_EVERY_MS: u64 = 1000;

impl Behaviour {
    pub fn delayed(self, pause: Duration) -> Self {
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, then: Box::new(self) }
    }

    /// How long to wait before it, and what then.
    pub(super) fn unwrapped(&self) -> (Duration, &Self) {
        let (mut pause, mut inner) = (Duration::ZERO, self);
        while let Self::Delay { ms, then } = inner {
            pause = pause.saturating_add(Duration::from_millis(*ms));
            inner = then;
        }
        (pause, inner)
    }
}
