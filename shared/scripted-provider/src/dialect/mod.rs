//! The providers' HTTP APIs. A dialect is one file here and one line in [`DIALECTS`].

mod anthropic;
mod azure;
mod bedrock;
mod gemini;
mod mistral;
mod openai;

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Tier, bucket::Level, image::ImageSize, request::ModelRequest};

/// Every dialect that the server speaks.
pub(crate) static DIALECTS: &[&dyn Dialect] = &[
    &openai::OpenAi,
    &anthropic::Anthropic,
    &gemini::Gemini,
    &azure::Azure,
    &mistral::Mistral,
    &bedrock::Bedrock,
];

/// How an answer ended, before it has the provider's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Complete,
    Length,
    Refusal,
}

/// One provider's API: where model calls arrive, how they are read, and the bodies that it sends.
pub(crate) trait Dialect: Sync {
    fn provider(&self) -> Provider;

    /// The value of the provider's base URL setting.
    fn base_url(&self, address: SocketAddr) -> String;

    /// Does a model call arrive at this path?
    fn serves(&self, path: &str) -> bool;

    /// Do the headers identify a caller? The key itself is neither checked nor kept.
    fn has_key(&self, headers: &HeaderMap) -> bool;

    /// The response to a call whose signature is wrong, for an API that has them.
    fn denied(&self, _path: &str, _headers: &HeaderMap, _body: &[u8]) -> Option<(u16, Value)> {
        None
    }

    /// Reads model, texts and images; whatever is missing or malformed stays empty.
    fn prompt(&self, path: &str, body: &Value) -> Prompt;

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value;

    fn error(&self, model: &str, status: u16) -> Value;

    /// The response to a call above a limit of requests, or of tokens: its body, and its `Retry-After`.
    fn rate_limited(&self, model: &str, _of_tokens: bool, retry_after: Option<u32>) -> (Value, Option<u32>) {
        (self.error(model, 429), retry_after)
    }

    /// The response to a call of the flex tier that has no capacity now.
    fn no_capacity(&self, model: &str) -> (u16, Value) {
        (503, self.error(model, 503))
    }

    /// The response to a call with a key that does not exist.
    fn bad_key(&self, model: &str) -> (u16, Value) {
        (401, self.error(model, 401))
    }

    /// The response to a call of a model that does not exist.
    fn unknown_model(&self, model: &str) -> (u16, Value) {
        (404, self.error(model, 404))
    }

    /// The response to a call whose account has no credit left.
    fn out_of_credit(&self) -> (u16, Value);

    /// The headers that announce a limit; `name` is `requests` or `tokens`.
    fn limit_headers(&self, _name: &str, _level: &Level, _now: Timestamp) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The rate-limit headers of a limit of output tokens, where the provider has one.
    fn output_limit_headers(&self, _level: &Level, _now: Timestamp) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The text with which the provider's models refuse.
    fn refusal(&self) -> &'static str;
}

/// `None` when the server has no dialect of this provider.
pub(crate) fn of(provider: Provider) -> Option<&'static dyn Dialect> {
    DIALECTS.iter().copied().find(|dialect| dialect.provider() == provider)
}

/// The parts of a request that every dialect has.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) user: String,
    pub(crate) has_image: bool,
    /// Of the first image whose format is known.
    pub(crate) image: Option<ImageSize>,
    pub(crate) tier: Tier,
    /// The provider may cache the system prompt: by itself, or because the request asks for that.
    pub(crate) is_cached: bool,
}

impl Prompt {
    /// Adds content that is a string or an array of parts with `text` fields; `image` finds the
    /// base64 data of a part that is an image.
    fn add(&mut self, is_user: bool, content: &Value, image: impl Fn(&Value) -> Option<&Value>) {
        let texts = if is_user { &mut self.user } else { &mut self.system };
        let mut add_text = |text: &str| {
            texts.push_str(text);
            texts.push('\n');
        };
        match content {
            Value::String(text) => add_text(text),
            Value::Array(parts) => {
                for part in parts {
                    part["text"].as_str().map(&mut add_text);
                    if let Some(data) = image(part) {
                        self.has_image = true;
                        self.image = self.image.or_else(|| ImageSize::of_base64(data.as_str()?));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a part of the content has this field.
fn has_part(content: &Value, field: &str) -> bool {
    content.as_array().is_some_and(|parts| parts.iter().any(|part| part.get(field).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_dialect() {
        for &provider in Provider::ALL {
            assert!(of(provider).is_some(), "{provider}");
        }
    }
}
