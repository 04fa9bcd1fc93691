//! Errors as RFC 9457 problem documents: the one shape of every error of the API.

mod code;
mod convert;
mod layer;

use axum::{
    http::{HeaderName, HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use everypage_core::intake::options::OptionError;
use serde::Serialize;
use tracing::error;
use utoipa::ToSchema;

use crate::MAX_RESPONSE;

pub use code::Code;
pub use layer::{for_every_error, panicked};

pub const MEDIA_TYPE: &str = "application/problem+json";

/// One field of a request that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The option or parameter.
    #[schema(example = "deadline")]
    pub name: String,
    /// What is wrong with its value, and what is accepted.
    #[schema(example = "\"soon\" is not a time with its unit such as 250ms, 30s, 5m or 1h30m")]
    pub message: String,
}

/// An error, as an RFC 9457 problem document.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Document<'a> {
    /// Identifies the kind of problem; never changes.
    #[serde(rename = "type")]
    #[schema(example = "urn:problem:everypage:unknown_job")]
    kind: String,
    /// The kind of problem in words.
    #[schema(example = "Unknown job")]
    title: &'a str,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// What happened to this request, and what to do about it.
    #[schema(example = "there is no job 01kab2y7e9q4c0m8t5w3r6x1zd")]
    detail: &'a str,
    code: Code,
    /// Every field that is not valid.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    errors: &'a [FieldError],
}

/// Why a request fails. As a response it is a problem document.
#[derive(Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    errors: Vec<FieldError>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers
            .extend(HeaderValue::from_str(value).ok().map(|value| (HeaderName::from_static(name), value)));
        self
    }

    /// Reports every field that is not valid in one response.
    pub fn invalid_fields(fields: Vec<OptionError>) -> Self {
        let detail = fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let errors = fields.into_iter().map(|field| FieldError { name: field.name, message: field.message });
        Self { errors: errors.collect(), ..Self::new(Code::BadOptions, detail) }
    }

    pub fn invalid(name: &str, message: impl Into<String>) -> Self {
        Self::invalid_fields(vec![OptionError::new(name, message)])
    }

    pub fn unknown_job(id: &str) -> Self {
        // A long or odd id is not repeated.
        match id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric()) {
            true => Self::new(Code::UnknownJob, format!("there is no job {id}")),
            false => Self::new(Code::UnknownJob, "there is no such job"),
        }
    }

    pub fn timeout() -> Self {
        Self::new(
            Code::Timeout,
            "the server stopped waiting for the request; retry, faster or in smaller parts",
        )
    }

    pub fn response_too_large(bytes: usize) -> Self {
        let detail = format!("the response has {bytes} bytes, the limit is {MAX_RESPONSE}; request less");
        Self::new(Code::AnswerTooLarge, detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(Code::Forbidden, detail)
    }

    /// An error of the service; its cause is logged and not shown to callers.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        error!(%cause, "request failed");
        Self::new(Code::Internal, "internal error; retry later")
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl Problem {
    /// The document as JSON.
    pub fn document(&self) -> Vec<u8> {
        let document = Document {
            kind: format!("urn:problem:everypage:{}", self.code.name()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            code: self.code,
            errors: &self.errors,
        };
        // Texts and numbers alone can be encoded. Should they not be, the status is the answer.
        serde_json::to_vec(&document).unwrap_or_else(|_| b"{\"type\":\"about:blank\"}".to_vec())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.document();
        let mut response = (self.code.status(), [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}
