//! Sends webhooks to the servers of tenants.

use async_trait::async_trait;

/// One webhook request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Why a webhook was not delivered. The text is shown to people and holds no secrets of the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// The URL is invalid or not allowed; a retry would fail in the same way.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

impl HookError {
    /// A stable name of the kind of error, without details of the request or its receiver.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

#[async_trait]
pub trait Hooks: Send + Sync {
    /// Checks a URL without resolving its host name; returns what is wrong with it.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Sends the request once, with its own timeout. A 2xx response counts as delivered; redirects
    /// are never followed.
    async fn post(&self, call: &WebhookRequest) -> Result<(), HookError>;
}
