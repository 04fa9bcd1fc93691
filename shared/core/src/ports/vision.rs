//! Calls a vision model to read a page.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{document::ImageFormat, providers::target::Target};

/// The content of a model call: the instructions, the text around the page, and its image if it has
/// one.
#[derive(Clone)]
pub struct PageRequest {
    pub system_prompt: String,
    /// The page's own text layer and its neighbours', marked before / current / after.
    pub context_text: String,
    pub image: Option<RequestImage>,
    /// Upper bound for the length of the answer.
    pub max_output_tokens: u32,
    /// The randomness of the answer; the provider's default if unset.
    pub temperature: Option<f32>,
    pub service_tier: ServiceTier,
}

/// How urgently the provider works on a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceTier {
    #[default]
    Standard,
    /// At about half the price, when the provider has time: after minutes, or not at all.
    Flex,
}

#[derive(Clone)]
pub struct RequestImage {
    pub format: ImageFormat,
    pub bytes: std::sync::Arc<[u8]>,
}

/// Why the model's answer ended, as the provider reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Complete,
    /// Cut off at the output limit.
    Length,
    /// The model or the provider's content filter declined.
    Refusal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

/// The price of a model, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Per million tokens.
    pub input: f64,
    pub output: f64,
    /// Per page, for a model that is not paid by tokens.
    pub page: f64,
}

impl Price {
    pub const fn of_tokens(input: f64, output: f64) -> Self {
        Self { input, output, page: 0.0 }
    }

    pub fn cost_usd(&self, input_tokens: u64, output_tokens: u64, pages: u64) -> f64 {
        let tokens = input_tokens as f64 * self.input + output_tokens as f64 * self.output;
        tokens / 1_000_000.0 + pages as f64 * self.page
    }
}

/// The rest of one rate limit, by the provider's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub left: u64,
    /// All that there is when nothing is used, where the provider announces it.
    pub limit: Option<u64>,
    /// When all of it is left again.
    pub resets_in: Duration,
}

/// The rest of the provider's rate limits, by its headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub requests: Option<Quota>,
    /// The tightest limit that counts input tokens, alone or with those of the answer.
    pub tokens: Option<Quota>,
    /// The limit that counts the tokens of answers.
    pub output_tokens: Option<Quota>,
    /// The limit that refused the call, where the provider names it.
    pub exceeded: Option<Exceeded>,
}

impl Allowance {
    /// The limits of which something is announced.
    pub fn quotas(&self) -> impl Iterator<Item = Quota> {
        [self.requests, self.tokens, self.output_tokens].into_iter().flatten()
    }

    /// Whether it says how large a limit is that is not full.
    pub fn is_sized(&self) -> bool {
        self.quotas().any(|quota| quota.limit.is_some_and(|limit| quota.left < limit))
    }
}

/// The unit of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    Requests,
    Tokens,
}

#[derive(Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    pub finish: Finish,
    pub usage: Usage,
    pub allowance: Allowance,
}

/// The scope of a configuration error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Bad or missing key: no model of this provider can be called.
    Provider,
    /// The key may not call the provider's models, at least not now: 403.
    Access,
    /// Unknown model: the provider's other models may work.
    Model,
}

/// Why a model call failed, classified by what can be done about it. `detail` is shown to people and
/// never holds document text, a prompt or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisionError {
    /// Connection refused or reset, 5xx, 529, or a body that does not follow the API; `retry_after` from
    /// `Retry-After`.
    #[error("{detail}")]
    Transient { detail: String, retry_after: Option<Duration> },
    /// 429 or quota; `retry_after` from `Retry-After`, or from the rate-limit headers where these do not say how
    /// large a limit is.
    #[error("{detail}")]
    Exhausted { detail: String, retry_after: Option<Duration>, allowance: Box<Allowance> },
    /// 401, 403, unknown model, missing key.
    #[error("{detail}")]
    Configuration { detail: String, scope: Scope },
    /// 400, 413, 422: this model can't take this page.
    #[error("{detail}")]
    Request { detail: String },
    /// Anything else.
    #[error("{detail}")]
    Unknown { detail: String },
}

/// The models of all providers. One call sends exactly one request; adapters never retry.
///
/// The caller ends a call early by dropping its future; an adapter must not leave work running then.
#[async_trait]
pub trait Vision: Send + Sync {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError>;

    /// Returns the price of a model; `None` if it is not known.
    fn price(&self, target: &Target) -> Option<Price>;

    /// Whether the model has a flex tier.
    fn has_flex(&self, _target: &Target) -> bool {
        false
    }
}
