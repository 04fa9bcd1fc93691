//! Everything that is not an answer, sorted by what can be done about it.

use everypage_core::{
    domain::target::Target,
    ports::vision::{PageRequest, Scope, VisionError},
};
use reqwest::StatusCode;
use serde_json::Value;

use crate::{rate_limit, redact, transport::Reply};

/// The call that failed: what its error may name, and what it must not repeat.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) target: &'a Target,
    pub(crate) request: &'a PageRequest,
    pub(crate) key: Option<&'a str>,
}

impl Subject<'_> {
    /// No usable HTTP answer, or one that is not what the API promises.
    pub(crate) fn transient(&self, what: &str) -> VisionError {
        VisionError::Transient { detail: self.detail(&redact::shown(what, self.key, &self.target.model)) }
    }

    /// Nobody was asked, because nobody could answer.
    pub(crate) fn no_provider(&self, what: &str) -> VisionError {
        VisionError::Configuration { detail: self.detail(what), scope: Scope::Provider }
    }

    /// An answer that says what went wrong.
    pub(crate) fn failure(&self, reply: &Reply) -> VisionError {
        let said = Said::read(&reply.body);
        let status = said.status_within(reply.status);
        let detail = self.detail(&self.words(status, &said));
        let exhausted =
            |detail| VisionError::Exhausted { detail, retry_after: rate_limit::retry_after(&reply.headers) };
        let configuration = |detail, scope| VisionError::Configuration { detail, scope };
        match status.as_u16() {
            _ if said.is_quota() => exhausted(detail),
            402 | 429 => exhausted(detail),
            404 => configuration(detail, Scope::Model),
            400..=499 if said.has_code("model_not_found") => configuration(detail, Scope::Model),
            401 | 403 => configuration(detail, Scope::Provider),
            400 | 413 | 422 => VisionError::Request { detail },
            408 | 409 | 500..=599 => VisionError::Transient { detail },
            // A success without an answer in it, only an error that carries no number.
            200..=299 => VisionError::Transient { detail },
            _ => VisionError::Unknown { detail },
        }
    }

    /// A success without the page in it: an error in disguise, or something that is not the API.
    pub(crate) fn not_an_answer(&self, reply: &Reply) -> VisionError {
        match serde_json::from_slice::<Value>(&reply.body) {
            Ok(body) if !body["error"].is_null() => self.failure(reply),
            Ok(_) => self.transient("the answer is JSON without the expected fields"),
            Err(_) if reply.body.trim_ascii_start().starts_with(b"<") => {
                self.transient("the answer is a web page, not the API's JSON")
            }
            Err(_) => self.transient("the answer is not JSON"),
        }
    }

    fn detail(&self, what: &str) -> String {
        let Target { provider, model } = self.target;
        format!("{provider} {model}: {what}")
    }

    fn words(&self, status: StatusCode, said: &Said) -> String {
        let model = &self.target.model;
        let mut words = format!("HTTP {}", status.as_u16());
        for name in said.code.iter().chain(&said.kind).take(1) {
            words = format!("{words} {}", redact::shown(name, self.key, model));
        }
        match said.message.as_ref().and_then(|text| redact::message(text, self.key, model, self.request)) {
            Some(message) => format!("{words}: {message}"),
            None => words,
        }
    }
}

/// True when the API declined the page in the form of an error: another provider may still read
/// it, so this is a refusal and not a fault of the request.
pub(crate) fn is_refusal(reply: &Reply) -> bool {
    if reply.status != StatusCode::BAD_REQUEST {
        return false;
    }
    let said = Said::read(&reply.body);
    let blocked = said.message.as_ref().is_some_and(|text| text.contains("blocked by content filtering"));
    blocked || said.has_code("content_filter") || said.has_code("content_policy_violation")
}

/// What the body of an error says: both vendors' shapes, and those of servers like them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    kind: Option<String>,
    code: Option<String>,
    message: Option<String>,
}

impl Said {
    fn read(body: &[u8]) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self::default();
        };
        let error = match &body["error"] {
            Value::String(message) => {
                return Self { message: Some(message.clone()), ..Self::default() };
            }
            Value::Object(_) => &body["error"],
            _ => &body,
        };
        let text = |name: &str| match &error[name] {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self { kind: text("type"), code: text("code"), message: text("message") }
    }

    fn has_code(&self, code: &str) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|said| said == code)
    }

    /// Money is used up: waiting helps, or another provider, but not a smaller page. Anthropic
    /// says it as a 400 without a code of its own.
    fn is_quota(&self) -> bool {
        let codes =
            ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"];
        codes.into_iter().any(|code| self.has_code(code))
            || self.message.as_ref().is_some_and(|text| text.contains("credit balance is too low"))
    }

    /// Gateways wrap an upstream's error in a 200 and put its status into `code`.
    fn status_within(&self, status: StatusCode) -> StatusCode {
        let code = self.code.as_ref().filter(|_| status.is_success());
        let inner = code.and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
        inner.filter(|inner| inner.is_client_error() || inner.is_server_error()).unwrap_or(status)
    }
}

#[cfg(test)]
mod tests;
