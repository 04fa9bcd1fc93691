//! What went wrong, as RFC 9457 problem documents: the one shape of every error.

use std::any::Any;

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{ALLOW, CONTENT_TYPE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use everypage_core::{
    ports::Fault,
    store::jobs::JobError,
    usecases::{StepError, intake::SubmitError, purchase::PurchaseError, wishes::Mistake},
};
use serde::Serialize;
use tracing::error;
use utoipa::ToSchema;

use crate::MOST_CARRIED;

const MEDIA_TYPE: &str = "application/problem+json";

/// Longest text of a framework's own refusal that is passed on.
const MOST_TEXT: usize = 4096;

/// A kind of problem: its name and what it is in general.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    pub code: &'static str,
    pub status: StatusCode,
    pub title: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $code:literal, $status:ident, $title:literal;)+) => {
        $(pub static $name: Kind = Kind { code: $code, status: StatusCode::$status, title: $title };)+
        /// Every kind there is.
        pub static KINDS: &[&Kind] = &[$(&$name),+];
    };
}

kinds! {
    BAD_REQUEST = "bad_request", BAD_REQUEST, "The request can't be read";
    UNAUTHENTICATED = "unauthenticated", UNAUTHORIZED, "The caller is not known";
    FORBIDDEN = "forbidden", FORBIDDEN, "The caller may not do this";
    UNKNOWN_TENANT = "unknown_tenant", FORBIDDEN, "The caller's tenant is not known here";
    NOT_FOUND = "not_found", NOT_FOUND, "There is nothing here";
    UNKNOWN_JOB = "unknown_job", NOT_FOUND, "There is no such job";
    UNKNOWN_PURCHASE = "unknown_purchase", NOT_FOUND, "There is no such purchase";
    NO_RESULT = "no_result", NOT_FOUND, "There is no such result";
    UNKNOWN_PAGE = "unknown_page", NOT_FOUND, "There is no such page";
    NO_IMAGE = "no_image", NOT_FOUND, "There is no picture of the page";
    NO_METRICS = "no_metrics", NOT_FOUND, "There are no metrics here";
    NO_WEBHOOK = "no_webhook", NOT_FOUND, "The tenant has no webhook";
    UNKNOWN_DEAD_LETTER = "unknown_dead_letter", NOT_FOUND, "There is no such dead letter";
    NOT_PAID = "not_paid", PAYMENT_REQUIRED, "The credits could not be paid";
    NOT_ENOUGH_CREDITS = "not_enough_credits", PAYMENT_REQUIRED, "There are not enough credits";
    METHOD_NOT_ALLOWED = "method_not_allowed", METHOD_NOT_ALLOWED, "The method does not fit the address";
    NOT_ACCEPTABLE = "not_acceptable", NOT_ACCEPTABLE, "There is no such form of it";
    NO_PURCHASES = "purchases_not_available", CONFLICT, "No credits can be bought here";
    NOT_READY = "result_not_ready", CONFLICT, "The result is not there yet";
    AWAITING_UPLOAD = "awaiting_upload", CONFLICT, "The document has not come yet";
    ILLEGAL_TRANSITION = "illegal_transition", CONFLICT, "The job's state does not allow this";
    JOB_IS_OPEN = "job_is_open", CONFLICT, "The job has not ended";
    NOTHING_TO_HEAL = "nothing_to_heal", CONFLICT, "The job has no result to heal";
    NOT_CONFIRMED = "not_confirmed", CONFLICT, "What would be lost was not confirmed";
    TOO_LARGE = "file_too_large", PAYLOAD_TOO_LARGE, "It is too large";
    ANSWER_TOO_LARGE = "answer_too_large", PAYLOAD_TOO_LARGE, "The answer is too large for the gateway";
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of a type that is not taken";
    BAD_OPTIONS = "bad_options", UNPROCESSABLE_ENTITY, "Some of what was asked for can't be used";
    BAD_DOCUMENT = "bad_document", UNPROCESSABLE_ENTITY, "The document can't be used";
    EMPTY_FILE = "empty_file", UNPROCESSABLE_ENTITY, "The document is empty";
    KEY_REUSED = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key stands for another request";
    UNREADABLE_MESSAGE = "unreadable_message", UNPROCESSABLE_ENTITY, "The dead letter can't be sent again";
    TOO_MANY_REQUESTS = "too_many_requests", TOO_MANY_REQUESTS, "Too much at once";
    TIMEOUT = "timeout", REQUEST_TIMEOUT, "The request took too long";
    INTERNAL = "internal", INTERNAL_SERVER_ERROR, "Something broke on our side";
    NO_UPLOADS = "uploads_not_available", UNPROCESSABLE_ENTITY, "Uploads past the API are not available";
    UNAVAILABLE = "unavailable", SERVICE_UNAVAILABLE, "Try again in a moment";
}

/// One part of a request that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rejected {
    /// The option or parameter.
    #[schema(example = "deadline")]
    pub name: String,
    /// What is wrong with it, and what is accepted.
    #[schema(example = "\"soon\" is not a time with its unit such as 250ms, 30s, 5m or 1h30m")]
    pub message: String,
}

/// An error, as RFC 9457 has it.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Document<'a> {
    /// Names the kind of problem; never changes.
    #[serde(rename = "type")]
    #[schema(example = "urn:problem:everypage:unknown_job")]
    kind: String,
    /// The kind of problem in words.
    #[schema(example = "There is no such job")]
    title: &'a str,
    #[schema(example = 404)]
    status: u16,
    /// What happened this time, and what to do about it.
    #[schema(example = "there is no job 01kab2y7e9q4c0m8t5w3r6x1zd")]
    detail: &'a str,
    /// The last part of `type`, for programs.
    #[schema(example = "unknown_job")]
    code: &'a str,
    /// What can't be used, one by one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    errors: &'a [Rejected],
}

/// Why a request is not done. As a response it is a problem document.
#[derive(Debug)]
pub struct Problem {
    kind: &'static Kind,
    detail: String,
    errors: Vec<Rejected>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers
            .extend(HeaderValue::from_str(value).ok().map(|value| (HeaderName::from_static(name), value)));
        self
    }

    /// Everything that can't be used, told together.
    pub fn mistakes(mistakes: Vec<Mistake>) -> Self {
        let detail = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let errors =
            mistakes.into_iter().map(|mistake| Rejected { name: mistake.name, message: mistake.message });
        Self { errors: errors.collect(), ..Self::new(&BAD_OPTIONS, detail) }
    }

    pub fn mistake(name: &str, message: impl Into<String>) -> Self {
        Self::mistakes(vec![Mistake::new(name, message)])
    }

    pub fn unknown_job(id: &str) -> Self {
        // What is asked for may be long or odd; it is not repeated then.
        match id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric()) {
            true => Self::new(&UNKNOWN_JOB, format!("there is no job {id}")),
            false => Self::new(&UNKNOWN_JOB, "there is no such job"),
        }
    }

    pub fn timeout() -> Self {
        Self::new(&TIMEOUT, "it was given up; send it again, faster or in smaller parts")
    }

    pub fn answer_too_large(bytes: usize) -> Self {
        let detail =
            format!("the answer has {bytes} bytes and this API carries {MOST_CARRIED}; ask for less");
        Self::new(&ANSWER_TOO_LARGE, detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(&FORBIDDEN, detail)
    }

    /// Our fault; what exactly is for the log and not for callers.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        error!(%cause, "a request could not be answered");
        Self::new(&INTERNAL, "it was noted; trying again may help")
    }

    pub fn code(&self) -> &'static str {
        self.kind.code
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Kind { code, status, title } = self.kind;
        let document = Document {
            kind: format!("urn:problem:everypage:{code}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
            errors: &self.errors,
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = (*status, [(CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Throttled { retry_after, .. } => {
                let seconds = retry_after.map_or(1, |pause| pause.as_secs().max(1));
                Self::new(&UNAVAILABLE, "there is too much going on")
                    .with_header("retry-after", &seconds.to_string())
            }
            Fault::Unreachable { .. } => {
                error!(cause = %fault, "a request could not be answered");
                Self::new(&UNAVAILABLE, "a part of the system does not answer")
                    .with_header("retry-after", "5")
            }
            Fault::Broken { .. } => Self::internal(fault),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::TooLarge { .. } => Self::new(&TOO_LARGE, error.to_string()),
            SubmitError::KeyReused { .. } => Self::new(&KEY_REUSED, error.to_string()),
            SubmitError::BadOptions(_) => Self::new(&BAD_OPTIONS, error.to_string()),
            SubmitError::UnknownTenant(_) => Self::new(&UNKNOWN_TENANT, error.to_string()),
            SubmitError::Unreadable { .. } => Self::internal(error),
            SubmitError::Fault(fault) => fault.into(),
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        let kind = match &error {
            StepError::Document(_) => &BAD_DOCUMENT,
            StepError::Fault(fault) => return fault.clone().into(),
            StepError::Broken { code, .. } => match *code {
                "illegal_transition" => &ILLEGAL_TRANSITION,
                "job_is_open" => &JOB_IS_OPEN,
                "nothing_to_heal" => &NOTHING_TO_HEAL,
                "not_enough_credits" => &NOT_ENOUGH_CREDITS,
                "unknown_job" => &UNKNOWN_JOB,
                "unknown_dead_letter" => &UNKNOWN_DEAD_LETTER,
                "unreadable_message" => &UNREADABLE_MESSAGE,
                _ => return Self::internal(error),
            },
        };
        Self::new(kind, error.to_string())
    }
}

impl From<PurchaseError> for Problem {
    fn from(error: PurchaseError) -> Self {
        let kind = match &error {
            PurchaseError::NotSetUp => &NO_PURCHASES,
            PurchaseError::BadAmount { .. } => return Self::mistake("credits", error.to_string()),
            PurchaseError::KeyReused { .. } => &KEY_REUSED,
            PurchaseError::Unknown(_) => &UNKNOWN_PURCHASE,
            PurchaseError::NotAllowed(_) => &ILLEGAL_TRANSITION,
            PurchaseError::Fault(fault) => return fault.clone().into(),
        };
        Self::new(kind, error.to_string())
    }
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        StepError::from(error).into()
    }
}

/// The framework's own refusals (no such route or method, a body that can't be read) in the same
/// shape as ours.
pub async fn for_every_error(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE);
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text =
        String::from_utf8(to_bytes(body, MOST_TEXT).await.unwrap_or_default().into()).unwrap_or_default();
    let (kind, detail) = match status {
        StatusCode::NOT_FOUND => (&NOT_FOUND, format!("there is nothing at {path}")),
        StatusCode::METHOD_NOT_ALLOWED => (&METHOD_NOT_ALLOWED, format!("{path} does not take {method}")),
        StatusCode::PAYLOAD_TOO_LARGE => (&TOO_LARGE, text),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (&UNSUPPORTED_MEDIA_TYPE, text),
        StatusCode::UNPROCESSABLE_ENTITY => (&BAD_OPTIONS, text),
        status if status.is_client_error() => (&BAD_REQUEST, text),
        _ => return Problem::internal(text).into_response(),
    };
    let mut answer = Problem::new(kind, detail).into_response();
    if let Some(allow) = parts.headers.get(ALLOW) {
        answer.headers_mut().insert(ALLOW, allow.clone());
    }
    answer
}

/// A bug costs the request that met it and no other.
pub fn panicked(cause: Box<dyn Any + Send>) -> axum::http::Response<Body> {
    let cause = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
    Problem::internal(cause.unwrap_or("panicked")).into_response()
}

/// A body that stopped in the middle.
pub fn broken_body(cause: impl std::fmt::Display) -> Problem {
    Problem::new(&BAD_REQUEST, format!("the body could not be read to its end: {cause}"))
}

/// A JSON body that says nothing is the same as none.
pub fn json<T: serde::de::DeserializeOwned + Default>(body: &Bytes) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Problem::new(&BAD_OPTIONS, format!("the JSON does not fit: {error}"))
        }
        _ => Problem::new(&BAD_REQUEST, format!("this is not JSON: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use axum::{Router, routing::get};
    use tower::ServiceExt;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let codes: HashSet<_> = KINDS.iter().map(|kind| kind.code).collect();
        assert_eq!(codes.len(), KINDS.len());
    }
    #[tokio::test]
    async fn a_bug_is_an_answer_that_tells_nothing() {
        async fn bug() -> &'static str {
            panic!("page 7 says: secret")
        }
        let router = Router::new().route("/", get(bug)).layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = to_bytes(response.into_body(), MOST_TEXT).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("urn:problem:everypage:internal") && !text.contains("secret"), "{text}");
    }
}
