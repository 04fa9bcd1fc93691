use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// The webhook of a tenant: a URL that is notified when a job ends.
#[derive(Debug, Serialize, ToSchema)]
pub struct Webhook {
    /// The URL that is notified.
    #[schema(example = "https://example.com/hooks/everypage")]
    pub url: String,
    /// Signs the messages; only in the response that sets the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When the webhook was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}
