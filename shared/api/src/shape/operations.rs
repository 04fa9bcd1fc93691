use everypage_core::{
    domain::{breaker, event},
    store::dead,
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::name;

/// An event of an audit trail.
#[derive(Debug, Serialize, ToSchema)]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    #[schema(example = "page.settled")]
    pub kind: String,
    /// Depends on the type.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    pub timestamp: Timestamp,
    pub correlation_id: String,
    pub metadata: EventMetadata,
    pub schema_version: u32,
    /// What it is about: `job/ID` or `job/ID/page/N`.
    #[schema(example = "job/01kab2y7e9q4c0m8t5w3r6x1zd/page/7")]
    pub aggregate: String,
    /// From 1 on, per aggregate.
    pub sequence: u64,
    /// Hash of the event before it; empty for the first.
    pub previous: String,
    /// SHA-256 over all other fields in canonical JSON.
    pub hash: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EventMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    pub tenant: String,
    /// The part of the system that made it.
    #[schema(example = "worker")]
    pub source: String,
    pub environment: String,
    pub trace_id: String,
    pub span_id: String,
    #[schema(example = "NORMAL")]
    pub priority: String,
}

impl From<event::Event> for Event {
    fn from(event: event::Event) -> Self {
        let metadata = event.metadata;
        Self {
            id: event.id.to_string(),
            kind: event.kind,
            data: event.data,
            timestamp: event.timestamp,
            correlation_id: event.correlation_id.to_string(),
            metadata: EventMetadata {
                user_id: metadata.user_id,
                tenant: metadata.tenant.to_string(),
                source: metadata.source,
                environment: metadata.environment,
                trace_id: metadata.trace_id,
                span_id: metadata.span_id,
                priority: name(metadata.priority),
            },
            schema_version: event.schema_version,
            aggregate: event.aggregate.to_string(),
            sequence: event.sequence,
            previous: event.previous,
            hash: event.hash,
        }
    }
}

/// What a dead letter is about.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    Job {
        job: String,
    },
    Page {
        job: String,
        page: u32,
    },
    /// The tenant could not be told of the job's end.
    Webhook {
        job: String,
    },
    /// A message that nobody could read.
    Message,
}

/// What was given up, and why. Its message is kept but not shown: it holds document text.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetter {
    pub id: String,
    pub subject: Subject,
    /// Name of the document that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "report.pdf")]
    pub document: Option<String>,
    pub reason: String,
    /// Deliveries before it was given up.
    pub attempts: u32,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub correlation_id: String,
    #[schema(example = "normal")]
    pub priority: String,
}

impl DeadLetter {
    pub fn new(letter: dead::DeadLetter, document: Option<String>) -> Self {
        Self {
            document,
            id: letter.id.to_string(),
            subject: match letter.subject {
                dead::Subject::Job { job } => Subject::Job { job: job.to_string() },
                dead::Subject::Page { job, page } => Subject::Page { job: job.to_string(), page: page.get() },
                dead::Subject::Webhook { job, .. } => Subject::Webhook { job: job.to_string() },
                dead::Subject::Message => Subject::Message,
            },
            reason: letter.reason,
            attempts: letter.attempts,
            first_at: letter.first_at,
            last_at: letter.last_at,
            correlation_id: letter.correlation_id.to_string(),
            priority: name(letter.priority).to_lowercase(),
        }
    }
}

/// A dead letter that was not sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Unsent {
    pub id: String,
    #[schema(example = "unknown_dead_letter")]
    pub code: String,
    pub reason: String,
}

/// What became of the letters that were to be redriven.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Redriven {
    /// Letters that are back at work.
    pub redriven: Vec<String>,
    pub failed: Vec<Unsent>,
    /// Not reached within the time of one request: ask again.
    pub left: usize,
}

/// What sending dead letters back may cost.
#[derive(Debug, Serialize, ToSchema)]
pub struct Estimate {
    /// Letters that were asked about and wait.
    pub letters: usize,
    /// Pages that would be read by AI.
    pub pages: u32,
    /// Millionths of a US dollar, by the plans of their jobs.
    pub cost_micro_usd: u64,
    /// Letters of documents that were never planned: what they cost is known once they are opened.
    pub unknown: usize,
    /// The last ones, not looked at within the time of one request.
    pub left: usize,
}

/// Letters that are gone.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purged {
    pub purged: usize,
}

/// Pages that were sent to the models once more.
#[derive(Debug, Serialize, ToSchema)]
pub struct Healing {
    pub job: String,
    pub sent: Vec<u32>,
    /// The latest version of the result now; a healed one will be the next.
    pub version: u32,
}

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
    #[schema(example = "openai:gpt-5.4")]
    pub target: String,
    pub state: BreakerState,
    /// When the next probe may go out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_until: Option<Timestamp>,
    pub failures: u32,
    /// Openings in a row.
    pub trips: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// The failure that was counted last.
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
