//! States of a job, the legal transitions between them, and the status that callers see.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    Received,
    Acked,
    Understood,
    Proposed,
    Approved,
    Modified,
    Rejected,
    Executed,
    Audited,
    Cancelled,
    Failed,
}

impl State {
    pub const ALL: [Self; 11] = [
        Self::Received,
        Self::Acked,
        Self::Understood,
        Self::Proposed,
        Self::Approved,
        Self::Modified,
        Self::Rejected,
        Self::Executed,
        Self::Audited,
        Self::Cancelled,
        Self::Failed,
    ];

    /// Nothing more happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Rejected | Self::Audited | Self::Cancelled | Self::Failed)
    }

    pub fn may_become(self, next: Self) -> bool {
        use State::*;
        match next {
            Received => false,
            Acked => matches!(self, Received | Failed),
            Understood => self == Acked,
            Proposed => self == Understood,
            Approved => matches!(self, Proposed | Modified),
            Modified | Rejected => self == Proposed,
            Executed => self == Approved,
            Audited => self == Executed,
            Cancelled => matches!(self, Received | Acked | Understood | Proposed | Approved | Modified),
            Failed => !self.is_terminal(),
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Received => "RECEIVED",
            Self::Acked => "ACKED",
            Self::Understood => "UNDERSTOOD",
            Self::Proposed => "PROPOSED",
            Self::Approved => "APPROVED",
            Self::Modified => "MODIFIED",
            Self::Rejected => "REJECTED",
            Self::Executed => "EXECUTED",
            Self::Audited => "AUDITED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        };
        f.pad(name)
    }
}

/// What a caller sees of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Processing,
    AwaitingApproval,
    Success,
    Failed,
    Rejected,
    Cancelled,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        })
    }
}

/// Why workers are to stop before every page is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    Deadline,
    Cancelled,
}
