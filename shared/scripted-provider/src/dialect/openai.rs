//! OpenAI's chat completions, which compatible servers speak as well.
//!
//! Errors as in developers.openai.com/api/docs/guides/error-codes and .../guides/flex-processing, headers as in
//! .../guides/rate-limits.

use std::{net::SocketAddr, time::Duration};

use everypage_core::providers::target::Provider;
use hyper::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt};
use crate::{Tier, bucket::Level, request::ModelRequest};

pub(super) struct OpenAi;

impl Dialect for OpenAi {
    fn provider(&self) -> Provider {
        Provider::OpenAi
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}/v1")
    }

    fn serves(&self, path: &str) -> bool {
        matches!(path, "/v1/chat/completions" | "/chat/completions")
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "))
    }

    fn prompt(&self, _path: &str, body: &Value) -> Prompt {
        let mut prompt = Prompt {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            tier: Tier::of(body["service_tier"].as_str()),
            is_cached: true,
            ..Prompt::default()
        };
        for message in body["messages"].as_array().into_iter().flatten() {
            prompt.add(message["role"] == "user", &message["content"], |part| {
                (part["type"] == "image_url").then(|| &part["image_url"]["url"])
            });
        }
        prompt
    }

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value {
        let (input, output) = (request.input_tokens, text.len().div_ceil(4) as u64);
        let refused = finish == Finish::Refusal;
        json!({
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 1_763_251_200,
            "model": request.model,
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": if refused { Value::Null } else { text.into() },
                    "refusal": if refused { text.into() } else { Value::Null },
                },
                "finish_reason": if finish == Finish::Length { "length" } else { "stop" },
            }],
            "usage": {
                "prompt_tokens": input,
                "completion_tokens": output,
                "total_tokens": input + output,
                "prompt_tokens_details": { "cached_tokens": request.cached_tokens },
            },
            "service_tier": request.tier.name("default"),
        })
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let (kind, code, message) = match status {
            400 => ("invalid_request_error", "invalid_image_format", "You uploaded an unsupported image."),
            401 => {
                ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-abc****wxyz.")
            }
            403 => (
                "invalid_request_error",
                "unsupported_country_region_territory",
                "Country, region, or territory not supported",
            ),
            404 => {
                let message = format!("The model `{model}` does not exist or you do not have access to it.");
                return error("invalid_request_error", "model_not_found", &message);
            }
            413 => ("invalid_request_error", "request_too_large", "Maximum content size limit exceeded."),
            422 => ("invalid_request_error", "unprocessable_entity", "The request could not be processed."),
            429 => ("requests", "rate_limit_exceeded", "Rate limit reached: please try again later."),
            503 => {
                ("server_error", "slow_down", "The engine is currently overloaded, please try again later.")
            }
            _ => ("server_error", "server_error", "The server had an error while processing your request."),
        };
        error(kind, code, message)
    }

    fn rate_limited(&self, model: &str, of_tokens: bool, retry_after: Option<u32>) -> (Value, Option<u32>) {
        let message = "Rate limit reached on tokens per min (TPM): please try again later.";
        let body = match of_tokens {
            true => error("tokens", "rate_limit_exceeded", message),
            false => self.error(model, 429),
        };
        (body, retry_after)
    }

    /// The guide to flex processing has the status and its name, and that the call is not charged.
    fn no_capacity(&self, _model: &str) -> (u16, Value) {
        let message = "Flex processing has no resources available now.";
        (429, error("resource_unavailable", "resource_unavailable", message))
    }

    fn out_of_credit(&self) -> (u16, Value) {
        let message = "You exceeded your current quota, please check your plan and billing details.";
        (429, error("insufficient_quota", "insufficient_quota", message))
    }

    fn limit_headers(&self, name: &str, level: &Level, _now: Timestamp) -> Vec<(String, String)> {
        vec![
            (format!("x-ratelimit-limit-{name}"), level.limit.to_string()),
            (format!("x-ratelimit-remaining-{name}"), level.remaining.to_string()),
            (format!("x-ratelimit-reset-{name}"), go_duration(level.full_in)),
        ]
    }

    fn refusal(&self) -> &'static str {
        "I'm sorry, I can't help with that."
    }
}

fn error(kind: &str, code: &str, message: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

/// The notation of the programming language Go: `250ms`, `1.5s`, `6m0s`.
fn go_duration(time: Duration) -> String {
    let ms = time.as_nanos().div_ceil(1_000_000);
    let (minutes, rest) = (ms / 60_000, ms % 60_000);
    match minutes {
        0 if rest < 1000 => format!("{rest}ms"),
        0 => format!("{}s", rest as f64 / 1000.0),
        _ => format!("{minutes}m{}s", rest as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_announced_as_openai_does() {
        let table = [
            (0, "0ms"),
            (250, "250ms"),
            (1000, "1s"),
            (8640, "8.64s"),
            (360_000, "6m0s"),
            (90_500, "1m30.5s"),
        ];
        for (ms, reset) in table {
            let level = Level { limit: 60, remaining: 59, full_in: Duration::from_millis(ms) };
            let headers = OpenAi.limit_headers("requests", &level, Timestamp::UNIX_EPOCH);
            let expected = [
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-reset-requests", reset),
            ];
            assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
    }
}
