//! Asking a vision model to read a page.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{document::ImageFormat, providers::target::Target};

/// What is sent: the instructions, the words around the page, and its image where it has one.
#[derive(Clone)]
pub struct PageRequest {
    pub system_prompt: String,
    /// The page's own text layer and its neighbours', marked before / current / after.
    pub context_text: String,
    pub image: Option<RequestImage>,
    /// Upper bound for the answer.
    pub max_output_tokens: u32,
}

#[derive(Clone)]
pub struct RequestImage {
    pub format: ImageFormat,
    pub bytes: std::sync::Arc<[u8]>,
}

/// How the model says that its answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Complete,
    /// Cut off at the output limit.
    Length,
    /// The model or its filter declined.
    Refusal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

#[derive(Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    pub finish: Finish,
    pub usage: Usage,
}

/// Where a configuration error bites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Bad or missing key: no model of this provider will answer.
    Provider,
    /// Unknown model: the provider's others may be fine.
    Model,
}

/// Why there is no answer, named for what can be done about it. `detail` is for people and never
/// holds document text, a prompt or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisionError {
    /// Connection refused or reset, 5xx, 529, a body that is not what the API promises.
    #[error("{detail}")]
    Transient { detail: String },
    /// 429 or quota; `retry_after` from `Retry-After` or the rate-limit headers.
    #[error("{detail}")]
    Exhausted { detail: String, retry_after: Option<Duration> },
    /// 401, 403, unknown model, missing key.
    #[error("{detail}")]
    Configuration { detail: String, scope: Scope },
    /// 400, 413, 422: this page can't be sent, to anybody.
    #[error("{detail}")]
    Request { detail: String },
    /// Anything else.
    #[error("{detail}")]
    Unknown { detail: String },
}

/// A model behind an API. One call is one request on the wire: no retries in here.
///
/// The caller bounds the call by dropping the future; an adapter must not leave work running then.
#[async_trait]
pub trait Vision: Send + Sync {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError>;

    /// What a model costs; zero where nobody knows.
    fn price(&self, target: &Target) -> Price;
}
