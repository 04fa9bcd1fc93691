//! The message that sends one page to a worker.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    document::Classification,
    ids::{CorrelationId, JobId, PageNumber, Priority, TenantId},
    ports::Fault,
    providers::target::{Provider, Tier},
    trace::TraceContext,
};

/// Version of the message format. After a breaking change, workers read the old and the new version until
/// the old messages are gone.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    pub key: String,
    pub mime: String,
    pub width_px: u32,
    pub height_px: u32,
}

/// A page for a worker to read. Unknown fields are ignored; a missing one is an error that names it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMessage {
    pub version: u32,
    pub job_id: JobId,
    /// SHA-256 of the source.
    pub document_id: String,
    pub page_id: PageNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageRef>,
    /// Blob of the prepared range that holds this page's MuPDF text.
    pub mupdf_text_key: String,
    /// Empty if it is larger than [`MAX_INLINE_CONTEXT`]: then it is in the blob `context_key`.
    pub context_text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_key: Option<String>,
    /// Fingerprint of the system prompt; the prompt itself is in the worker's configuration.
    pub system_prompt_version: String,
    pub ai_provider: Provider,
    pub model_tier: Tier,
    pub classification: Classification,
    pub idempotency_key: String,
    pub plan_version: u32,
    /// 0 at first, one more with each redrive.
    #[serde(rename = "attempt")]
    pub redrive_count: u32,
    /// Rounds that this message has waited for; 0 until the page waits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounds: u32,
    pub deadline: Timestamp,
    pub priority: Priority,
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub source: String,
    pub correlation_id: CorrelationId,
    /// W3C trace context; empty if tracing is off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub traceparent: String,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl std::fmt::Debug for PageMessage {
    /// Never contains the document's text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageMessage({}, page {}, redrive_count {})", self.job_id, self.page_id, self.redrive_count)
    }
}

/// Context of at most this many bytes of JSON is part of the message. Larger context is a blob, because a
/// page without an image has all of its text there, and a batch of ten SQS messages is limited to 1 MiB.
pub const MAX_INLINE_CONTEXT: usize = 64 * 1024;

/// Replaces the two characters that SQS refuses and a PDF may contain.
pub fn sendable(text: String) -> String {
    let refused = ['\u{FFFE}', '\u{FFFF}'];
    if text.contains(refused) { text.replace(refused, "\u{FFFD}") } else { text }
}

pub fn idempotency_key(job: &JobId, page: PageNumber, plan: u32) -> String {
    format!("doc:{job}:page:{page}:v{plan}")
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the message can't be parsed: {0}")]
    Malformed(String),
    #[error("the message has version {0}; this worker reads version {VERSION}")]
    Version(u64),
}

/// The readable fields of a message that can't be parsed as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialMessage {
    pub job: Option<JobId>,
    pub page: Option<PageNumber>,
    pub tenant: Option<TenantId>,
    pub correlation: Option<CorrelationId>,
}

impl PartialMessage {
    pub fn of(body: &str) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let text = |name: &str| body[name].as_str().filter(|text| !text.is_empty());
        Self {
            job: text("job_id").map(JobId::new),
            page: serde_json::from_value(body["page_id"].clone()).ok(),
            tenant: text("tenant").map(TenantId::new),
            correlation: text("correlation_id").map(CorrelationId::new),
        }
    }
}

impl PageMessage {
    pub fn parse(body: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Envelope {
            version: u64,
        }
        let malformed = |error: serde_json::Error| Unreadable::Malformed(error.to_string());
        let envelope: Envelope = serde_json::from_str(body).map_err(malformed)?;
        if envelope.version != u64::from(VERSION) {
            return Err(Unreadable::Version(envelope.version));
        }
        serde_json::from_str(body).map_err(malformed)
    }

    /// The trace id of `traceparent`; empty if tracing is off.
    pub fn trace_id(&self) -> String {
        self.traceparent.parse::<TraceContext>().map(|context| context.trace_id()).unwrap_or_default()
    }

    /// The body of the queue message.
    pub fn encode(&self) -> Result<String, Fault> {
        serde_json::to_string(self).map_err(|error| Fault::broken("page message", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN: &str = include_str!("../../fixtures/page_message_v1.json");

    #[test]
    fn an_older_message_is_parsed_and_unknown_fields_are_ignored() {
        let message = PageMessage::parse(GOLDEN).unwrap();
        assert_eq!(message.page_id.get(), 17);
        let again = PageMessage::parse(&message.encode().unwrap()).unwrap();
        assert_eq!(again, message);
    }

    #[test]
    fn each_missing_field_is_named() {
        let whole: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
        let optional = ["image", "context_key", "user", "traceparent", "task_token", "a_field_of_tomorrow"];
        for field in whole.as_object().unwrap().keys().filter(|field| !optional.contains(&field.as_str())) {
            let mut cut = whole.clone();
            cut.as_object_mut().unwrap().remove(field);
            let error = PageMessage::parse(&cut.to_string()).unwrap_err().to_string();
            assert!(error.contains(field.as_str()), "{field}: {error}");
        }
    }

    #[test]
    fn a_message_of_another_version_is_an_error_with_that_version() {
        let error = PageMessage::parse(r#"{"version": 9}"#).unwrap_err();
        assert_eq!(error, Unreadable::Version(9));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(body in ".{0,200}") {
            let _ = PageMessage::parse(&body);
        }
    }
}
