//! Amazon Bedrock's Converse API. It takes requests that are signed with this server's AWS credentials, or that
//! have a Bedrock API key.
//!
//! Answers and errors as in docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html: the kind
//! of an error is in the header `x-amzn-errortype`, its body has the message alone. No header announces a limit
//! or a wait.

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::{HeaderMap, header::AUTHORIZATION};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt, has_part};
use crate::{Tier, request::ModelRequest, signature};

const PATH: &str = "/model/";
const OPERATION: &str = "/converse";

pub(super) struct Bedrock;

impl Dialect for Bedrock {
    fn provider(&self) -> Provider {
        Provider::Bedrock
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}")
    }

    fn serves(&self, path: &str) -> bool {
        path.starts_with(PATH) && path.ends_with(OPERATION)
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(AUTHORIZATION)
    }

    fn denied(&self, path: &str, headers: &HeaderMap, body: &[u8]) -> Option<(u16, Value)> {
        let is_key = headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "));
        let is_allowed = is_key || signature::is_valid("bedrock", path, headers, body);
        let message = "The request signature we calculated does not match the signature you provided.";
        (!is_allowed).then(|| (403, error("InvalidSignatureException", message)))
    }

    fn prompt(&self, path: &str, body: &Value) -> Prompt {
        let model = path.trim_start_matches(PATH).trim_end_matches(OPERATION);
        let model = percent_decode_str(model).decode_utf8_lossy().into_owned();
        let mut prompt = Prompt {
            model,
            tier: Tier::of(body["serviceTier"]["type"].as_str()),
            is_cached: has_part(&body["system"], "cachePoint"),
            ..Prompt::default()
        };
        prompt.add(false, &body["system"], image_data);
        for message in body["messages"].as_array().into_iter().flatten() {
            prompt.add(message["role"] == "user", &message["content"], image_data);
        }
        prompt
    }

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value {
        let (input, output) = (request.input_tokens, text.len().div_ceil(4) as u64);
        let reason = match finish {
            Finish::Complete => "end_turn",
            Finish::Length => "max_tokens",
            Finish::Refusal => "content_filtered",
        };
        let content = if text.is_empty() { json!([]) } else { json!([{ "text": text }]) };
        json!({
            "output": { "message": { "role": "assistant", "content": content } },
            "stopReason": reason,
            "usage": {
                "inputTokens": input - request.cached_tokens,
                "outputTokens": output,
                "totalTokens": input + output,
                "cacheReadInputTokens": request.cached_tokens,
            },
            "metrics": { "latencyMs": 1 },
            "serviceTier": { "type": request.tier.name("default") },
        })
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let (kind, message) = match status {
            403 => ("UnrecognizedClientException", "The security token included in the request is invalid."),
            404 => {
                let message =
                    format!("Could not resolve the foundation model from the model identifier: {model}");
                return error("ResourceNotFoundException", &message);
            }
            408 => (
                "ModelTimeoutException",
                "Model has timed out in processing the request. Try your request again.",
            ),
            429 => ("ThrottlingException", "Too many requests, please wait before trying again."),
            503 => ("ServiceUnavailableException", "Bedrock is unable to process your request."),
            500.. => {
                ("InternalServerException", "The system encountered an unexpected error during processing.")
            }
            _ => ("ValidationException", "The model returned the following errors: Could not process image"),
        };
        error(kind, message)
    }

    /// No wait is named. Limits of tokens as users report them (github.com/anthropics/claude-code/issues/236).
    fn rate_limited(&self, model: &str, of_tokens: bool, _retry_after: Option<u32>) -> (Value, Option<u32>) {
        let body = match of_tokens {
            true => error("ThrottlingException", "Too many tokens, please wait before trying again."),
            false => self.error(model, 429),
        };
        (body, None)
    }

    fn bad_key(&self, model: &str) -> (u16, Value) {
        (403, self.error(model, 403))
    }

    fn unknown_model(&self, _model: &str) -> (u16, Value) {
        (400, error("ValidationException", "The provided model identifier is invalid."))
    }

    fn out_of_credit(&self) -> (u16, Value) {
        (
            400,
            error(
                "ServiceQuotaExceededException",
                "Your request exceeds the service quota for your account.",
            ),
        )
    }

    fn refusal(&self) -> &'static str {
        ""
    }
}

fn image_data(part: &Value) -> Option<&Value> {
    part.get("image").map(|image| &image["source"]["bytes"])
}

/// The kind is sent as a header.
fn error(kind: &str, message: &str) -> Value {
    json!({ "__type": kind, "message": message })
}
