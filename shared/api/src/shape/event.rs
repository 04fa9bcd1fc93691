use everypage_core::{event, ids::Priority};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// An event of an audit trail.
#[derive(Debug, Serialize, ToSchema)]
pub struct Event {
    /// The id of the event.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(example = "page.settled")]
    pub kind: String,
    /// Fields that depend on the type.
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    /// When the change happened.
    pub timestamp: Timestamp,
    /// Shared by all events that one request caused.
    pub correlation_id: String,
    pub metadata: EventMetadata,
    /// The version of the format of `data`.
    pub schema_version: u32,
    /// The object that changed: `job/ID` or `job/ID/page/N`.
    #[schema(example = "job/01kab2y7e9q4c0m8t5w3r6x1zd/page/7")]
    pub aggregate: String,
    /// Counts the events of the aggregate from 1.
    pub sequence: u64,
    /// Hash of the previous event of the aggregate; empty for the first.
    pub previous: String,
    /// SHA-256 over all other fields in canonical JSON.
    pub hash: String,
}

/// Who and what caused an event.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventMetadata {
    /// The user that caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The tenant that the object belongs to.
    pub tenant: String,
    /// The component that emitted the event.
    #[schema(example = "worker")]
    pub source: String,
    /// The name of the installation (`ENVIRONMENT`).
    pub environment: String,
    /// The trace of the work that emitted the event.
    pub trace_id: String,
    /// The span of the work that emitted the event.
    pub span_id: String,
    pub priority: Priority,
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
                priority: metadata.priority,
            },
            schema_version: event.schema_version,
            aggregate: event.aggregate.to_string(),
            sequence: event.sequence,
            previous: event.previous,
            hash: event.hash,
        }
    }
}
