//! States of a job, the legal transitions between them, and the status that callers see.

use serde::{Deserialize, Serialize};

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::VariantArray,
    utoipa::ToSchema,
)]
#[schema(as = JobState, description = "The state of a job in its life cycle.")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
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
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Whether the job has ended; only an operator's redrive can change it now.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Rejected | Self::Audited | Self::Cancelled | Self::Failed)
    }

    /// Whether the transition from this state to `next` is legal.
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

/// The state of a job as the API reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    Queued,
    Processing,
    AwaitingApproval,
    Success,
    Failed,
    Rejected,
    Cancelled,
}

/// Why workers stop before every page is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    Deadline,
    Cancelled,
}
