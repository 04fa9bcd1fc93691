use everypage_core::notify::webhooks::{self, Progress};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::{ToSchema, openapi::Schema};

use crate::openapi::one_of;

/// A webhook of a tenant: a URL that is notified of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct Webhook {
    /// The id of the webhook; `default` for the one that `/v1/webhook` sets.
    pub id: String,
    /// The URL that is notified.
    #[schema(example = "https://example.com/hooks/everypage")]
    pub url: String,
    /// The types of events, or prefixes such as `job.*`; empty for the ends of jobs.
    #[schema(example = json!(["job.failed", "credit.*"]))]
    pub events: Vec<String>,
    /// Signs the messages; only in the response that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When the webhook was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

impl From<webhooks::Webhook> for Webhook {
    fn from(hook: webhooks::Webhook) -> Self {
        let webhooks::Webhook { id, url, events, created_at, .. } = hook;
        Self { id, url, events, secret: None, created_at: Some(created_at) }
    }
}

/// A message to a webhook about one event, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookDelivery {
    /// The header `webhook-id` of the message; also the id of its dead letter.
    #[schema(example = "msg_01kab2y7e9q4c0m8t5w3r6x1zd")]
    pub id: String,
    /// The type of the event.
    #[serde(rename = "type")]
    #[schema(example = "job.failed")]
    pub kind: String,
    /// The job that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[schema(schema_with = states)]
    pub state: String,
    /// How often it was sent.
    pub attempts: u32,
    /// When the event was found to be of interest to the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it is sent next; only while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

fn states() -> Schema {
    one_of(
        ["waiting", "delivered", "dead_letter", "dropped"],
        "Whether it was delivered; `dead_letter` if it was given up, `dropped` if the webhook was removed before.",
    )
}

impl From<webhooks::Delivery> for WebhookDelivery {
    fn from(delivery: webhooks::Delivery) -> Self {
        Self {
            id: delivery.id,
            kind: delivery.kind,
            job: delivery.job.map(|job| job.to_string()),
            state: delivery.progress.to_string(),
            attempts: delivery.attempts,
            created_at: delivery.created_at,
            next_attempt_at: (delivery.progress == Progress::Waiting).then_some(delivery.due),
            last_error: delivery.last_error,
        }
    }
}
