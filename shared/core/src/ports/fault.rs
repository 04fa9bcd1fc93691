//! Failures of a port, classified by what the caller can do about them.

use std::time::Duration;

/// How a caller reacts to a [`Fault`]. Retry code decides by this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Retry,
    RetryAfter(Duration),
    GiveUp,
}

/// A storage, queue or flow call that failed. It may or may not have taken effect, except for
/// `Throttled`, which guarantees that it did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{service} throttled the request")]
    Throttled { service: &'static str, retry_after: Option<Duration> },
    #[error("{service} could not be reached: {detail}")]
    Unreachable { service: &'static str, detail: String },
    /// This process has no PDF parser, or could not start one.
    #[error("no PDF parser: {detail}")]
    ParserUnavailable { detail: String },
    /// The response is unusable, and a retry would return the same.
    #[error("{service} returned an unusable response: {detail}")]
    Broken { service: &'static str, detail: String },
}

impl Fault {
    pub fn unreachable(service: &'static str, error: impl std::fmt::Display) -> Self {
        Self::Unreachable { service, detail: error.to_string() }
    }

    pub fn broken(service: &'static str, error: impl std::fmt::Display) -> Self {
        Self::Broken { service, detail: error.to_string() }
    }

    pub fn next(&self) -> Next {
        match self {
            Self::Throttled { retry_after: Some(pause), .. } => Next::RetryAfter(*pause),
            Self::Throttled { retry_after: None, .. }
            | Self::Unreachable { .. }
            | Self::ParserUnavailable { .. } => Next::Retry,
            Self::Broken { .. } => Next::GiveUp,
        }
    }
}
