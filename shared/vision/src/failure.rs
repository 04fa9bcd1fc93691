//! Failed calls, classified by what can be done about them.

use std::time::Duration;

use everypage_core::{
    ports::vision::{Allowance, Exceeded, Scope, VisionError},
    providers::target::Target,
};
use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    dialect::{Call, dialect},
    rate_limit, redact,
    transport::Reply,
};

/// Error codes of a used-up balance or budget. Anthropic reports it as a 400 without a code of its own.
const QUOTA_CODES: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"];
const QUOTA_MESSAGE: &str = "credit balance is too low";

const REFUSAL_CODES: [&str; 2] = ["content_filter", "content_policy_violation"];
const REFUSAL_MESSAGE: &str = "blocked by content filtering";

/// An error response, by what failed: the key, the model or the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// No model of the provider can be called with this key or account.
    BadAccess,
    /// The key may not call the provider's models.
    NoAccess,
    UnknownModel,
    /// Too many calls, or no money left.
    Exhausted,
    /// The provider's filter refused the page: another provider may still read it.
    Refused,
    /// This model can't take this page.
    BadRequest,
    Transient,
    Unknown,
}

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

    /// The model was not called, because it can't read such a page.
    pub(crate) fn cannot_take(&self, what: &str) -> VisionError {
        VisionError::Request { detail: self.detail(what) }
    }

    /// Whether the API reports with an error that its filter refused the page.
    pub(crate) fn is_refusal(&self, reply: &Reply) -> bool {
        let status = reply.status;
        status.is_client_error() && self.meaning(status, &ErrorBody::parse(reply)) == Meaning::Refused
    }

    /// Classifies a response that reports an error.
    pub(crate) fn failure(&self, reply: &Reply) -> VisionError {
        let error = ErrorBody::parse(reply);
        let status = error.inner_status(reply.status);
        let detail = self.detail(&self.message(status, &error));
        match self.meaning(status, &error) {
            Meaning::BadAccess => VisionError::Configuration { detail, scope: Scope::Provider },
            Meaning::NoAccess => VisionError::Configuration { detail, scope: Scope::Access },
            Meaning::UnknownModel => VisionError::Configuration { detail, scope: Scope::Model },
            Meaning::Exhausted => {
                let announced = rate_limit::allowance(self.target.provider, &reply.headers);
                let allowance = Allowance { exceeded: error.exceeded(), ..announced };
                let requested = rate_limit::explicit_retry_after(&reply.headers).or(error.retry_delay);
                // Where the size of a limit is known, so is when it has room for one call: long before it is full.
                let reset = || rate_limit::retry_after(&reply.headers).filter(|_| !allowance.is_sized());
                VisionError::Exhausted {
                    detail,
                    retry_after: requested.or_else(reset),
                    allowance: allowance.into(),
                }
            }
            Meaning::BadRequest | Meaning::Refused => VisionError::Request { detail },
            Meaning::Transient => {
                let retry_after = rate_limit::explicit_retry_after(&reply.headers).or(error.retry_delay);
                VisionError::Transient { detail, retry_after }
            }
            Meaning::Unknown => VisionError::Unknown { detail },
        }
    }

    fn meaning(&self, status: StatusCode, error: &ErrorBody) -> Meaning {
        if let Some(meaning) = dialect(self.target.provider).meaning(error) {
            return meaning;
        }
        match status.as_u16() {
            _ if error.is_quota() => Meaning::Exhausted,
            402 | 429 => Meaning::Exhausted,
            404 => Meaning::UnknownModel,
            400..=499 if error.has_code("model_not_found") => Meaning::UnknownModel,
            403 if error.is_flagged => Meaning::Refused,
            401 => Meaning::BadAccess,
            403 => Meaning::NoAccess,
            400 if error.is_refusal() => Meaning::Refused,
            400 | 413 | 422 => Meaning::BadRequest,
            408 | 409 | 500..=599 => Meaning::Transient,
            // A successful status with an error in the body that names no status of its own.
            200..=299 => Meaning::Transient,
            _ => Meaning::Unknown,
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

    /// The status and the code, never the message: it may quote the page, in words that no filter recognizes.
    fn message(&self, status: StatusCode, error: &ErrorBody) -> String {
        let summary = format!("HTTP {}", status.as_u16());
        // Google and Azure repeat the status as the code.
        let code = error.code.as_ref().filter(|code| **code != status.as_u16().to_string());
        match code.or(error.kind.as_ref()).filter(|code| is_code(code)) {
            Some(code) => format!("{summary} {}", redact::shown(code, self.key, &self.target.model)),
            None => summary,
        }
    }
}

/// Whether a code is one word of a program, and not text of a page.
fn is_code(code: &str) -> bool {
    const MAX_CHARS: usize = 64;
    code.len() <= MAX_CHARS && code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// The body of an error, in the shapes of all providers and of servers that imitate them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// The `type` of most APIs, Google's `status`.
    pub(crate) kind: Option<String>,
    code: Option<String>,
    message: Option<String>,
    /// Google's `details[].reason`.
    reasons: Vec<String>,
    /// Google's `details[].retryDelay`.
    retry_delay: Option<Duration>,
    /// OpenRouter's moderation has flagged the page, with a 403.
    is_flagged: bool,
}

impl ErrorBody {
    fn parse(reply: &Reply) -> Self {
        // AWS names the kind in a header, sometimes followed by a URL.
        let kind = rate_limit::header(&reply.headers, "x-amzn-errortype");
        let kind = kind.and_then(|kind| kind.split(':').next()).map(str::to_owned);
        let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else {
            return Self { kind, ..Self::default() };
        };
        // Google answers some errors with a list of one.
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(&body);
        let error = match &body["error"] {
            Value::String(message) => {
                return Self { message: Some(message.clone()), ..Self::default() };
            }
            Value::Object(_) => &body["error"],
            _ => body,
        };
        let text = |name: &str| match &error[name] {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let details = || error["details"].as_array().into_iter().flatten();
        let delay =
            |detail: &Value| rate_limit::number(detail["retryDelay"].as_str()?.strip_suffix('s')?, 1.0);
        Self {
            kind: text("type").or_else(|| text("status")).or(kind),
            code: text("code"),
            message: text("message").or_else(|| text("Message")).or_else(|| text("detail")),
            reasons: details().filter_map(|detail| detail["reason"].as_str()).map(str::to_owned).collect(),
            is_flagged: !error["metadata"]["flagged_input"].is_null(),
            retry_delay: details().find_map(delay).map(|delay| delay.min(rate_limit::MAX_WAIT)),
        }
    }

    /// The limit that a 429 is about: OpenAI's type, else what the message speaks of.
    fn exceeded(&self) -> Option<Exceeded> {
        match self.kind.as_deref() {
            Some("tokens") => return Some(Exceeded::Tokens),
            Some("requests") => return Some(Exceeded::Requests),
            _ => {}
        }
        let message = self.message.as_deref()?.to_ascii_lowercase();
        match (message.contains("token"), message.contains("request")) {
            (true, _) => Some(Exceeded::Tokens),
            (false, true) => Some(Exceeded::Requests),
            (false, false) => None,
        }
    }

    pub(crate) fn has_code(&self, code: &str) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|found| found == code)
    }

    pub(crate) fn has_reason(&self, reason: &str) -> bool {
        self.reasons.iter().any(|found| found == reason)
    }

    pub(crate) fn mentions(&self, phrase: &str) -> bool {
        self.message.as_ref().is_some_and(|text| text.contains(phrase))
    }

    /// Whether the account's money is used up: waiting helps, or another provider, but not a smaller
    /// page.
    fn is_quota(&self) -> bool {
        QUOTA_CODES.into_iter().any(|code| self.has_code(code)) || self.mentions(QUOTA_MESSAGE)
    }

    fn is_refusal(&self) -> bool {
        REFUSAL_CODES.into_iter().any(|code| self.has_code(code)) || self.mentions(REFUSAL_MESSAGE)
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
