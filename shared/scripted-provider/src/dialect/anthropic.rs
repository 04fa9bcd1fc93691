//! Anthropic's Messages API.
//!
//! Errors as in platform.claude.com/docs/en/api/errors, headers as in .../api/rate-limits.

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt, has_part};
use crate::{bucket::Level, request::ModelRequest};

pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn provider(&self) -> Provider {
        Provider::Anthropic
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}")
    }

    fn serves(&self, path: &str) -> bool {
        path == "/v1/messages"
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.contains_key("x-api-key") && headers.contains_key("anthropic-version")
    }

    fn prompt(&self, _path: &str, body: &Value) -> Prompt {
        let mut prompt = Prompt {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            is_cached: has_part(&body["system"], "cache_control"),
            ..Prompt::default()
        };
        prompt.add(false, &body["system"], image_data);
        for message in body["messages"].as_array().into_iter().flatten() {
            prompt.add(message["role"] == "user", &message["content"], image_data);
        }
        prompt
    }

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value {
        let reason = match finish {
            Finish::Complete => "end_turn",
            Finish::Length => "max_tokens",
            Finish::Refusal => "refusal",
        };
        let content = if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
        json!({
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": null,
            "usage": {
                "input_tokens": request.input_tokens - request.cached_tokens,
                "cache_read_input_tokens": request.cached_tokens,
                "cache_creation_input_tokens": 0,
                "output_tokens": text.len().div_ceil(4),
            },
        })
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let (kind, message) = match status {
            400 => (
                "invalid_request_error",
                "messages.0.content.0.image.source.base64.data: Could not process image",
            ),
            401 => ("authentication_error", "invalid x-api-key"),
            402 => ("billing_error", "There is an issue with your billing or payment information."),
            403 => {
                ("permission_error", "Your API key does not have permission to use the specified resource.")
            }
            404 => return error("not_found_error", &format!("model: {model}")),
            409 => ("conflict_error", "The request conflicts with the current state of a resource."),
            413 => ("request_too_large", "Request exceeds the maximum size"),
            422 => ("invalid_request_error", "The request could not be processed."),
            429 => ("rate_limit_error", "Number of requests has exceeded your per-minute rate limit"),
            504 => ("timeout_error", "The request timed out while processing."),
            529 => ("overloaded_error", "Overloaded"),
            _ => ("api_error", "Internal server error"),
        };
        error(kind, message)
    }

    fn rate_limited(&self, model: &str, of_tokens: bool, retry_after: Option<u32>) -> (Value, Option<u32>) {
        let message = "This request would exceed the rate limit for your organization of 40,000 input tokens per minute.";
        let body = match of_tokens {
            true => error("rate_limit_error", message),
            false => self.error(model, 429),
        };
        (body, retry_after)
    }

    fn out_of_credit(&self) -> (u16, Value) {
        let message = "Your credit balance is too low to access the Anthropic API. \
                       Please go to Plans & Billing to upgrade or purchase credits.";
        (400, error("invalid_request_error", message))
    }

    fn limit_headers(&self, name: &str, level: &Level, now: Timestamp) -> Vec<(String, String)> {
        // Whole seconds, rounded up.
        let seconds = i64::try_from(level.full_in.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX);
        let part = i64::from(now.subsec_nanosecond() > 0);
        let reset = Timestamp::from_second(now.as_second().saturating_add(seconds).saturating_add(part));
        let reset = reset.unwrap_or(Timestamp::MAX).to_string();
        let headers = |name: &str| {
            [
                (format!("anthropic-ratelimit-{name}-limit"), level.limit.to_string()),
                (format!("anthropic-ratelimit-{name}-remaining"), level.remaining.to_string()),
                (format!("anthropic-ratelimit-{name}-reset"), reset.clone()),
            ]
        };
        match name {
            // The limit of the two kinds together is announced as well.
            "tokens" => ["tokens", "input-tokens"].into_iter().flat_map(headers).collect(),
            name => headers(name).into(),
        }
    }

    fn output_limit_headers(&self, level: &Level, now: Timestamp) -> Vec<(String, String)> {
        self.limit_headers("output-tokens", level, now)
    }

    /// Anthropic's models refuse without text.
    fn refusal(&self) -> &'static str {
        ""
    }
}

/// The base64 data of a part that is an image.
fn image_data(part: &Value) -> Option<&Value> {
    (part["type"] == "image").then(|| &part["source"]["data"])
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_scripted" })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn limits_are_announced_as_anthropic_does() {
        let level = Level { limit: 40_000, remaining: 0, full_in: Duration::from_millis(41_200) };
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        let expected = [
            ("anthropic-ratelimit-tokens-limit", "40000"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-16T12:00:42Z"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-16T12:00:42Z"),
        ];
        let headers = Anthropic.limit_headers("tokens", &level, now);
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
