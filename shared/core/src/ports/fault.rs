//! Why a port did not answer, named for what the caller can do about it.

use std::time::Duration;

/// What a caller does next about a [`Fault`]. Retry code looks at this and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Retry,
    RetryAfter(Duration),
    GiveUp,
}

/// A storage, queue or flow call that went unanswered. The call may or may not have taken effect,
/// except for `Throttled`, which promises that it did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{service} asks for a pause")]
    Throttled { service: &'static str, retry_after: Option<Duration> },
    #[error("{service} could not be reached: {detail}")]
    Unreachable { service: &'static str, detail: String },
    /// This process has no PDF parser, or can't get one now.
    #[error("no PDF parser: {detail}")]
    ParserUnavailable { detail: String },
    /// What came back can't be used; asking again would give the same.
    #[error("{service} answered with something unusable: {detail}")]
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
