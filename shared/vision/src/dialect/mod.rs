//! The APIs of the providers, one file each, and the table of them.

mod anthropic;
mod azure;
mod bedrock;
mod completion;
mod gemini;
mod image;
mod mistral;
mod openai;
mod tuning;

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::{
    ports::vision::{Allowance, PageRequest, ServiceTier, VisionError},
    providers::target::{Provider, Target},
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

pub(crate) use completion::{Completion, Used};

use crate::{
    failure::{ErrorBody, Meaning},
    settings::Endpoint,
};

/// The table of dialects: one line per provider.
pub(crate) fn dialect(provider: Provider) -> &'static dyn Dialect {
    match provider {
        Provider::OpenAi => &openai::OpenAi,
        Provider::Anthropic => &anthropic::Anthropic,
        Provider::Gemini => &gemini::Gemini,
        Provider::Azure => &azure::Azure,
        Provider::Mistral => &mistral::Mistral,
        Provider::Bedrock => &bedrock::Bedrock,
    }
}

/// Requests and responses of one provider's API.
#[async_trait]
pub(crate) trait Dialect: Send + Sync {
    /// Builds the request of a call. Async, because a dialect may have to fetch credentials.
    async fn request(&self, call: Call<'_>, endpoint: &Endpoint) -> Result<Request, VisionError>;

    /// Parses the body of a successful response; `None` when it lacks what the API documents.
    fn parse(&self, body: &[u8]) -> Option<Completion>;

    /// What an error means where status and common codes would mislead.
    fn meaning(&self, _error: &ErrorBody) -> Option<Meaning> {
        None
    }

    /// What is left of the rate limits, from headers of the provider's own.
    fn allowance(&self, _headers: &HeaderMap) -> Allowance {
        Allowance::default()
    }

    /// How long until the rate limits that are used up are reset, from headers of the provider's own.
    fn rate_limit_reset(&self, _headers: &HeaderMap) -> Option<Duration> {
        None
    }
}

/// A request that is ready to be sent with POST.
pub(crate) struct Request {
    pub(crate) url: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Vec<u8>,
}

/// One model call: what its errors may name, and what they must not repeat.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) page: &'a PageRequest,
    pub(crate) key: Option<&'a str>,
    /// The output limit: the page's, or the model's if that is lower.
    pub(crate) max_output_tokens: u32,
}

impl Call<'_> {
    pub(crate) fn is_flex(&self) -> bool {
        self.page.service_tier == ServiceTier::Flex
    }

    /// The value of a header that holds the key, hidden from debug output.
    fn secret_header(&self, value: &str) -> Result<HeaderValue, VisionError> {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| self.misconfigured("the API key has characters that cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn bearer(&self) -> Result<Option<HeaderValue>, VisionError> {
        self.key.map(|key| self.secret_header(&format!("Bearer {key}"))).transpose()
    }

    fn json(&self, body: &impl Serialize) -> Result<Vec<u8>, VisionError> {
        serde_json::to_vec(body)
            .map_err(|error| VisionError::Unknown { detail: format!("{}: {error}", self.target) })
    }
}
