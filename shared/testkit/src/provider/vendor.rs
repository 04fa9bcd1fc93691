//! The bodies that each vendor really sends, for answers and for errors.

use everypage_core::domain::target::Provider;
use serde_json::{Value, json};

use super::request::Asked;

/// How an answer ended, before it has a vendor's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Length,
    Refusal,
}

pub(super) fn answer(asked: &Asked, text: &str, end: End) -> Value {
    let (input, output) = (asked.input_tokens, text.len().div_ceil(4) as u64);
    match asked.provider {
        Provider::OpenAi => {
            let declined = end == End::Refusal;
            json!({
                "id": "chatcmpl-scripted",
                "object": "chat.completion",
                "created": 1_763_251_200,
                "model": asked.model,
                "choices": [{
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": if declined { Value::Null } else { text.into() },
                        "refusal": if declined { text.into() } else { Value::Null },
                    },
                    "finish_reason": if end == End::Length { "length" } else { "stop" },
                }],
                "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output },
            })
        }
        Provider::Anthropic => {
            let reason = match end {
                End::Complete => "end_turn",
                End::Length => "max_tokens",
                End::Refusal => "refusal",
            };
            let content = if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
            json!({
                "id": "msg_scripted",
                "type": "message",
                "role": "assistant",
                "model": asked.model,
                "content": content,
                "stop_reason": reason,
                "stop_sequence": null,
                "usage": { "input_tokens": input, "output_tokens": output },
            })
        }
    }
}

pub(super) fn error(asked: &Asked, status: u16) -> Value {
    let model = &asked.model;
    match asked.provider {
        Provider::OpenAi => {
            let (kind, code, message) = match status {
                400 => {
                    ("invalid_request_error", "invalid_image_format", "You uploaded an unsupported image.")
                }
                401 => (
                    "invalid_request_error",
                    "invalid_api_key",
                    "Incorrect API key provided: sk-abc****wxyz.",
                ),
                403 => (
                    "invalid_request_error",
                    "unsupported_country_region_territory",
                    "Country, region, or territory not supported",
                ),
                404 => {
                    let message =
                        format!("The model `{model}` does not exist or you do not have access to it.");
                    return openai_error("invalid_request_error", "model_not_found", &message);
                }
                413 => ("invalid_request_error", "request_too_large", "Maximum content size limit exceeded."),
                422 => {
                    ("invalid_request_error", "unprocessable_entity", "The request could not be processed.")
                }
                429 => ("requests", "rate_limit_exceeded", "Rate limit reached: please try again later."),
                503 => (
                    "server_error",
                    "slow_down",
                    "The engine is currently overloaded, please try again later.",
                ),
                _ => {
                    ("server_error", "server_error", "The server had an error while processing your request.")
                }
            };
            openai_error(kind, code, message)
        }
        Provider::Anthropic => {
            let (kind, message) = match status {
                400 => (
                    "invalid_request_error",
                    "messages.0.content.0.image.source.base64.data: Could not process image",
                ),
                401 => ("authentication_error", "invalid x-api-key"),
                403 => (
                    "permission_error",
                    "Your API key does not have permission to use the specified resource.",
                ),
                404 => return anthropic_error("not_found_error", &format!("model: {model}")),
                413 => ("request_too_large", "Request exceeds the maximum size"),
                422 => ("invalid_request_error", "The request could not be processed."),
                429 => {
                    ("rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit")
                }
                529 => ("overloaded_error", "Overloaded"),
                _ => ("api_error", "Internal server error"),
            };
            anthropic_error(kind, message)
        }
    }
}

/// The account is out of money, with the status that the vendor gives it.
pub(super) fn quota(provider: Provider) -> (u16, Value) {
    match provider {
        Provider::OpenAi => {
            let message = "You exceeded your current quota, please check your plan and billing details.";
            (429, openai_error("insufficient_quota", "insufficient_quota", message))
        }
        Provider::Anthropic => {
            let message = "Your credit balance is too low to access the Anthropic API. \
                           Please go to Plans & Billing to upgrade or purchase credits.";
            (400, anthropic_error("invalid_request_error", message))
        }
    }
}

fn openai_error(kind: &str, code: &str, message: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

fn anthropic_error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_scripted" })
}
