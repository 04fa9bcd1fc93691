//! Azure OpenAI: OpenAI's bodies, with Azure's paths, headers and errors. Serves the v1 API and the older one
//! that has the deployment in its path.
//!
//! Errors as in learn.microsoft.com/azure/ai-foundry/openai (reference, how-to/quota,
//! concepts/content-filter, how-to/flex-processing), rate limits as users report them
//! (github.com/jasonacox/TinyLLM/issues/17); a refused call has `Retry-After`, and `x-ratelimit-reset-*` in seconds.

use std::net::SocketAddr;

use everypage_core::providers::target::Provider;
use hyper::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Dialect, Finish, Prompt, openai::OpenAi};
use crate::{bucket::Level, request::ModelRequest};

const V1: &str = "/openai/v1/chat/completions";
const DEPLOYMENTS: &str = "/openai/deployments/";
const CHAT: &str = "/chat/completions";

pub(super) struct Azure;

impl Dialect for Azure {
    fn provider(&self) -> Provider {
        Provider::Azure
    }

    fn base_url(&self, address: SocketAddr) -> String {
        format!("http://{address}")
    }

    fn serves(&self, path: &str) -> bool {
        path == V1 || deployment(path).is_some()
    }

    fn has_key(&self, headers: &HeaderMap) -> bool {
        headers.contains_key("api-key")
    }

    fn prompt(&self, path: &str, body: &Value) -> Prompt {
        let prompt = OpenAi.prompt(path, body);
        match deployment(path) {
            Some(model) => Prompt { model: model.to_owned(), ..prompt },
            None => prompt,
        }
    }

    fn answer(&self, request: &ModelRequest, text: &str, finish: Finish) -> Value {
        let mut answer = OpenAi.answer(request, text, finish);
        // The content filter withholds the answer.
        if finish == Finish::Refusal {
            answer["choices"][0] = json!({
                "index": 0,
                "message": { "role": "assistant", "content": "", "refusal": null },
                "finish_reason": "content_filter",
                "content_filter_results": { "violence": { "filtered": true, "severity": "medium" } },
            });
        }
        answer
    }

    fn error(&self, model: &str, status: u16) -> Value {
        let code = status.to_string();
        let (code, message) = match status {
            400 => ("BadRequest", "The image data you provided does not represent a valid image."),
            401 => (
                code.as_str(),
                "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a \
                 valid key for an active subscription and use a correct regional API endpoint for your resource.",
            ),
            403 => (code.as_str(), "Access denied due to Virtual Network/Firewall rules."),
            404 => (
                "DeploymentNotFound",
                "The API deployment for this resource does not exist. If you created the deployment within the \
                 last 5 minutes, please wait a moment and try again.",
            ),
            429 => return limited("call"),
            500.. => ("InternalServerError", "The server had an error while processing your request."),
            _ => return OpenAi.error(model, status),
        };
        error(code, message)
    }

    fn rate_limited(&self, _model: &str, of_tokens: bool, retry_after: Option<u32>) -> (Value, Option<u32>) {
        (limited(if of_tokens { "token" } else { "call" }), retry_after)
    }

    fn no_capacity(&self, model: &str) -> (u16, Value) {
        OpenAi.no_capacity(model)
    }

    fn out_of_credit(&self) -> (u16, Value) {
        (429, error("insufficient_quota", "You exceeded your current quota."))
    }

    fn limit_headers(&self, name: &str, level: &Level, _now: Timestamp) -> Vec<(String, String)> {
        let seconds = level.full_in.as_millis().div_ceil(1000);
        vec![
            (format!("x-ratelimit-limit-{name}"), level.limit.to_string()),
            (format!("x-ratelimit-remaining-{name}"), level.remaining.to_string()),
            (format!("x-ratelimit-reset-{name}"), seconds.to_string()),
        ]
    }

    fn refusal(&self) -> &'static str {
        ""
    }
}

fn deployment(path: &str) -> Option<&str> {
    path.strip_prefix(DEPLOYMENTS)?.strip_suffix(CHAT).filter(|name| !name.contains('/'))
}

/// Both kinds of limit have one status and one code: only the message tells them apart.
fn limited(what: &str) -> Value {
    let message = format!(
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded \
         {what} rate limit of your current OpenAI S0 pricing tier. Please retry later."
    );
    error("429", &message)
}

fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}
