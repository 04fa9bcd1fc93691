use everypage_core::read::breaker;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// `closed` lets calls pass, `open` blocks them, `half_open` waits for the result of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

/// The circuit breaker of a model or, as `provider:*`, of a whole provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct Breaker {
    /// `provider:model`, or `provider:*`.
    #[schema(example = "openai:gpt-5.4")]
    pub target: String,
    pub state: BreakerState,
    /// The end of the cooldown: when the next probe may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_until: Option<Timestamp>,
    /// Failed calls in a row.
    pub failures: u32,
    /// How often the breaker opened in a row.
    pub trips: u32,
    /// When the state changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// The last failure that was counted.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub cause: String,
}

impl Breaker {
    pub fn new(target: String, breaker: breaker::Breaker) -> Self {
        let (state, open_until) = match breaker.state {
            breaker::State::Closed => (BreakerState::Closed, None),
            breaker::State::Open { until } => (BreakerState::Open, Some(until)),
            breaker::State::HalfOpen { .. } => (BreakerState::HalfOpen, None),
        };
        Self {
            target,
            state,
            open_until,
            failures: breaker.failures,
            trips: breaker.trips,
            changed_at: breaker.changed_at,
            cause: breaker.cause,
        }
    }
}
