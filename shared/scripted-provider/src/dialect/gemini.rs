//! Google's Gemini API, `generateContent`.
//!
//! Answers as in ai.google.dev/api/generate-content, errors as in ai.google.dev/gemini-api/docs/troubleshooting
//! with the `details` of google.rpc. A wrong key is a 400 with the reason `API_KEY_INVALID`, a refused call
//! names its wait as `RetryInfo` in the body, and no header announces a limit.

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::HeaderMap;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt};
use crate::{Tier, request::ModelRequest};

const PATH: &str = "/v1beta/models/";
const METHOD: &str = ":generateContent";

pub(super) struct Gemini;

impl Dialect for Gemini {
    fn provider(&self) -> Provider {
        Provider::Gemini
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}/v1beta")
    }

    fn serves(&self, path: &str) -> bool {
        path.starts_with(PATH) && path.ends_with(METHOD)
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.contains_key("x-goog-api-key")
    }

    fn prompt(&self, path: &str, body: &Value) -> Prompt {
        let model = path.trim_start_matches(PATH).trim_end_matches(METHOD).to_owned();
        let tier = Tier::of(body["service_tier"].as_str());
        let mut prompt = Prompt { model, tier, is_cached: true, ..Prompt::default() };
        prompt.add(false, &body["systemInstruction"]["parts"], image_data);
        for content in body["contents"].as_array().into_iter().flatten() {
            prompt.add(true, &content["parts"], image_data);
        }
        prompt
    }

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value {
        let (input, output) = (request.input_tokens, text.len().div_ceil(4) as u64);
        let usage = json!({
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
            "cachedContentTokenCount": request.cached_tokens, "serviceTier": request.tier.name("standard"),
        });
        // The filter blocks the prompt: there is no candidate.
        if finish == Finish::Refusal {
            return json!({
                "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" },
                "usageMetadata": { "promptTokenCount": input, "totalTokenCount": input },
                "modelVersion": request.model,
                "responseId": "scripted",
            });
        }
        let content = match text {
            "" => json!({ "role": "model" }),
            text => json!({ "role": "model", "parts": [{ "text": text }] }),
        };
        json!({
            "candidates": [{
                "content": content,
                "finishReason": if finish == Finish::Length { "MAX_TOKENS" } else { "STOP" },
                "index": 0,
            }],
            "usageMetadata": usage,
            "modelVersion": request.model,
            "responseId": "scripted",
        })
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let (name, message) = match status {
            400 => ("INVALID_ARGUMENT", "Unable to process input image. Please retry or report the problem."),
            401 => ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
            403 => ("PERMISSION_DENIED", "Generative Language API has not been used in this project before."),
            404 => {
                let message = format!(
                    "models/{model} is not found for API version v1beta, or is not supported for generateContent."
                );
                return error(404, "NOT_FOUND", &message, &json!([]));
            }
            409 => ("ABORTED", "The operation was aborted."),
            413 => ("INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
            429 => (
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            503 => ("UNAVAILABLE", "The model is overloaded. Please try again later."),
            504 => ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
            _ => ("INTERNAL", "An internal error has occurred. Please retry."),
        };
        error(status, name, message, &json!([]))
    }

    /// The limit is named in the message and in the details (github.com/google-gemini/gemini-cli/issues/13112).
    fn rate_limited(&self, model: &str, of_tokens: bool, retry_after: Option<u32>) -> (Value, Option<u32>) {
        let (metric, id) = match of_tokens {
            true => ("input_token_count", "GenerateContentPaidTierInputTokensPerModelPerMinute"),
            false => ("requests", "GenerateRequestsPerMinutePerProjectPerModel"),
        };
        let metric = format!("generativelanguage.googleapis.com/generate_content_paid_tier_{metric}");
        let quota = json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{ "quotaMetric": metric, "quotaId": id, "quotaDimensions": { "model": model } }],
        });
        let retry = retry_after.map(|seconds| {
            json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s") })
        });
        let details: Vec<Value> = [Some(quota), retry].into_iter().flatten().collect();
        let message = format!(
            "You exceeded your current quota, please check your plan and billing details.\n\
             * Quota exceeded for metric: {metric}, model: {model}"
        );
        (error(429, "RESOURCE_EXHAUSTED", &message, &json!(details)), None)
    }

    fn bad_key(&self, _model: &str) -> (u16, Value) {
        let info = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": { "service": "generativelanguage.googleapis.com" },
        }]);
        (400, error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", &info))
    }

    fn out_of_credit(&self) -> (u16, Value) {
        let message = "Your prepayment credits are depleted. Please go to AI Studio to manage your billing.";
        (429, error(429, "RESOURCE_EXHAUSTED", message, &json!([])))
    }

    fn refusal(&self) -> &'static str {
        ""
    }
}

fn image_data(part: &Value) -> Option<&Value> {
    part.get("inlineData").map(|data| &data["data"])
}

fn error(code: u16, status: &str, message: &str, details: &Value) -> Value {
    let mut error = json!({ "error": { "code": code, "message": message, "status": status } });
    if details.as_array().is_some_and(|details| !details.is_empty()) {
        error["error"]["details"] = details.clone();
    }
    error
}
