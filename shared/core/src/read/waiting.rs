//! Why and until when a page waits for its next round.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::providers::target::Target;

/// Why no model could be called, or why the calls of a round did not give the page's text.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WaitReason {
    /// A provider asked to slow down.
    RateLimited,
    /// The breakers of the models are open.
    BreakerOpen,
    /// The calls failed for a reason that passes: errors, timeouts, lost connections.
    CallFailed,
    /// Every call that may be in flight is in flight.
    NoSlot,
    /// The provider's headers leave no room for another call.
    QuotaUsedUp,
}

impl WaitReason {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the page only waits for its turn, at a model that reads others.
    pub fn is_turn(self) -> bool {
        matches!(self, Self::NoSlot | Self::QuotaUsedUp)
    }
}

/// A page between two rounds. It holds no worker and no slot: its message comes back at `until`, or
/// earlier when a model becomes available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub until: Timestamp,
    pub reason: WaitReason,
    /// The model that is expected to be available first.
    pub target: Target,
    /// Rounds so far.
    pub rounds: u32,
}
