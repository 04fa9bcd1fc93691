//! Failed calls, classified by what can be done about them.

use everypage_core::{
    ports::vision::{Scope, VisionError},
    providers::target::Target,
};
use reqwest::StatusCode;
use serde_json::Value;

use crate::{dialect::Call, rate_limit, redact, transport::Reply};

/// Error codes of a used-up balance or budget. Anthropic reports it as a 400 without a code of its own.
const QUOTA_CODES: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"];
const QUOTA_MESSAGE: &str = "credit balance is too low";

const REFUSAL_CODES: [&str; 2] = ["content_filter", "content_policy_violation"];
const REFUSAL_MESSAGE: &str = "blocked by content filtering";

impl Call<'_> {
    /// There is no usable HTTP response, or one that is not what the API documents.
    pub(crate) fn transient(&self, what: &str) -> VisionError {
        let detail = self.detail(&redact::shown(what, self.key, &self.target.model));
        VisionError::Transient { detail, retry_after: None }
    }

    /// The provider was not called, because no call of it could succeed.
    pub(crate) fn misconfigured(&self, what: &str) -> VisionError {
        VisionError::Configuration { detail: self.detail(what), scope: Scope::Provider }
    }

    /// Classifies a response that reports an error.
    pub(crate) fn failure(&self, reply: &Reply) -> VisionError {
        let error = ErrorBody::parse(&reply.body);
        let status = error.inner_status(reply.status);
        let detail = self.detail(&self.message(status, &error));
        let exhausted = |detail| VisionError::Exhausted {
            detail,
            retry_after: rate_limit::retry_after(&reply.headers),
            allowance: rate_limit::allowance(self.target.provider, &reply.headers),
        };
        let transient = |detail| {
            let retry_after = rate_limit::explicit_retry_after(&reply.headers);
            VisionError::Transient { detail, retry_after }
        };
        let configuration = |detail, scope| VisionError::Configuration { detail, scope };
        match status.as_u16() {
            _ if error.is_quota() => exhausted(detail),
            402 | 429 => exhausted(detail),
            404 => configuration(detail, Scope::Model),
            400..=499 if error.has_code("model_not_found") => configuration(detail, Scope::Model),
            401 | 403 => configuration(detail, Scope::Provider),
            400 | 413 | 422 => VisionError::Request { detail },
            408 | 409 | 500..=599 => transient(detail),
            // A successful status with an error in the body that names no status of its own.
            200..=299 => transient(detail),
            _ => VisionError::Unknown { detail },
        }
    }

    /// Classifies a successful response without the page in it: an error with a wrong status, or a
    /// response of something else than the API.
    pub(crate) fn not_an_answer(&self, reply: &Reply) -> VisionError {
        match serde_json::from_slice::<Value>(&reply.body) {
            Ok(body) if !body["error"].is_null() => self.failure(reply),
            Ok(_) => self.transient("the response is JSON without the expected fields"),
            Err(_) if reply.body.trim_ascii_start().starts_with(b"<") => {
                self.transient("the response is a web page, not the API's JSON")
            }
            Err(_) => self.transient("the response is not JSON"),
        }
    }

    fn detail(&self, what: &str) -> String {
        let Target { provider, model } = self.target;
        format!("{provider} {model}: {what}")
    }

    fn message(&self, status: StatusCode, error: &ErrorBody) -> String {
        let model = &self.target.model;
        let mut summary = format!("HTTP {}", status.as_u16());
        if let Some(code) = error.code.as_ref().or(error.kind.as_ref()) {
            summary = format!("{summary} {}", redact::shown(code, self.key, model));
        }
        match error.message.as_ref().and_then(|text| redact::message(text, self.key, model, self.page)) {
            Some(message) => format!("{summary}: {message}"),
            None => summary,
        }
    }
}

/// Whether the API reports with an error that its filter refused the page: another provider may still
/// read it, so this is a refusal and not an error of the request.
pub(crate) fn is_refusal(reply: &Reply) -> bool {
    if reply.status != StatusCode::BAD_REQUEST {
        return false;
    }
    let error = ErrorBody::parse(&reply.body);
    REFUSAL_CODES.into_iter().any(|code| error.has_code(code)) || error.mentions(REFUSAL_MESSAGE)
}

/// The body of an error, in the shapes of all providers and of servers that imitate them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorBody {
    kind: Option<String>,
    code: Option<String>,
    message: Option<String>,
}

impl ErrorBody {
    fn parse(body: &[u8]) -> Self {
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
        [&self.code, &self.kind].into_iter().flatten().any(|found| found == code)
    }

    fn mentions(&self, phrase: &str) -> bool {
        self.message.as_ref().is_some_and(|text| text.contains(phrase))
    }

    /// Whether the account's money is used up: waiting helps, or another provider, but not a smaller
    /// page.
    fn is_quota(&self) -> bool {
        QUOTA_CODES.into_iter().any(|code| self.has_code(code)) || self.mentions(QUOTA_MESSAGE)
    }

    /// Gateways wrap the error of another server in a 200 and put its status into `code`.
    fn inner_status(&self, status: StatusCode) -> StatusCode {
        let code = self.code.as_ref().filter(|_| status.is_success());
        let inner = code.and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
        inner.filter(|inner| inner.is_client_error() || inner.is_server_error()).unwrap_or(status)
    }
}

#[cfg(test)]
mod tests;
