use serde::Serialize;
use utoipa::ToSchema;

use super::Priority;

/// The pages of one priority in the queue.
#[derive(Debug, Serialize, ToSchema)]
pub struct Lane {
    pub priority: Priority,
    /// Pages that wait or are being processed.
    pub waiting: u64,
}

/// The calls to one model.
#[derive(Debug, Serialize, ToSchema)]
pub struct InFlight {
    /// `provider:model`.
    #[schema(example = "openai:gpt-5.4")]
    pub target: String,
    /// Calls in flight, with slots that a process has taken ahead.
    pub in_flight: u32,
    /// The maximum number of calls in flight now; it follows the provider's rate limits, up to
    /// `MAX_INFLIGHT_PER_MODEL`.
    pub limit: u32,
    /// Until when no call may start, because the provider asked to slow down.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub paused_until: Option<String>,
}

/// The load of the queue and of the models.
#[derive(Debug, Serialize, ToSchema)]
pub struct Load {
    /// The queue, by priority.
    pub lanes: Vec<Lane>,
    /// The models.
    pub models: Vec<InFlight>,
    /// Dead letters of the caller's tenant; counted up to 1,000.
    pub dead_letters: usize,
}
