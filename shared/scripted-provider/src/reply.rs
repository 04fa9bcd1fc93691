//! The response of a behaviour.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;

use super::{
    Behaviour,
    body::Payload,
    dialect::{Dialect, Finish},
    request::ModelRequest,
};

pub(super) enum Reply {
    /// Nothing until the client disconnects.
    Silence,
    /// The connection closes.
    Close,
    Send {
        status: u16,
        content_type: &'static str,
        retry_after: Option<u32>,
        /// The kind of an error of AWS.
        error_type: Option<String>,
        payload: Payload,
    },
}

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

const WEB_PAGE: &str = "<!DOCTYPE html><html><head><title>Sign in</title></head>\
                        <body><h1>Please sign in to the network</h1></body></html>";

/// Enough repetition for any check of it to notice.
const LOOP_LINES: usize = 400;

impl Reply {
    fn with_retry_after(mut self, wait: Option<u32>) -> Self {
        if let Self::Send { retry_after, .. } = &mut self {
            *retry_after = wait;
        }
        self
    }

    /// Expects a `behaviour` whose delays are over and that decides.
    pub(super) fn to(dialect: &dyn Dialect, request: &ModelRequest, behaviour: &Behaviour) -> Self {
        let page = || page_text(request);
        let answer = |text: &str, finish| dialect.answer(request, text, finish);
        match behaviour {
            Behaviour::Answer
            | Behaviour::Delay { .. }
            | Behaviour::Lognormal { .. }
            | Behaviour::Next
            | Behaviour::Limit(_) => json(200, answer(&page(), Finish::Complete)),
            Behaviour::AnswerText(text) => json(200, answer(text, Finish::Complete)),
            Behaviour::Status(status) => json(*status, dialect.error(&request.model, *status)),
            Behaviour::StatusWithRetryAfter { status, retry_after } => {
                json(*status, dialect.error(&request.model, *status)).with_retry_after(Some(*retry_after))
            }
            Behaviour::RateLimited { retry_after, of_tokens } => {
                let (body, wait) = dialect.rate_limited(&request.model, *of_tokens, *retry_after);
                json(429, body).with_retry_after(wait)
            }
            Behaviour::NoCapacity => error(dialect.no_capacity(&request.model)),
            Behaviour::Quota => error(dialect.out_of_credit()),
            Behaviour::BadKey => error(dialect.bad_key(&request.model)),
            Behaviour::UnknownModel => error(dialect.unknown_model(&request.model)),
            Behaviour::Hang => Self::Silence,
            Behaviour::Reset => Self::Close,
            Behaviour::SlowDrip { bytes, every_ms } => {
                let body = answer(&page(), Finish::Complete).to_string();
                ok(JSON, Payload::drip(body, *bytes, Duration::from_millis(*every_ms)))
            }
            Behaviour::HalfBody => ok(JSON, Payload::half(answer(&page(), Finish::Complete).to_string())),
            Behaviour::Html => ok(HTML, Payload::whole(WEB_PAGE)),
            Behaviour::Garbage => {
                ok(JSON, Payload::whole(Bytes::from_static(b"\x00\x9f{{ not json, nor text \xff")))
            }
            Behaviour::WrongJson => ok(JSON, Payload::whole(r#"{"status":"ok","data":[1,2,3]}"#)),
            Behaviour::Huge { bytes } => ok(JSON, huge(dialect, request, *bytes)),
            Behaviour::Refusal => json(200, answer(dialect.refusal(), Finish::Refusal)),
            Behaviour::Truncated => json(200, answer(first_half(&page()), Finish::Length)),
            Behaviour::Loop => {
                json(200, answer(&"The same line again.\n".repeat(LOOP_LINES), Finish::Complete))
            }
            Behaviour::Empty => json(200, answer("", Finish::Complete)),
        }
    }
}

/// The tokens of an answer, as limits count them.
pub(super) fn output_tokens(request: &ModelRequest, behaviour: &Behaviour) -> u64 {
    let bytes = match behaviour {
        Behaviour::Answer => page_text(request).len(),
        Behaviour::AnswerText(text) => text.len(),
        _ => 0,
    };
    bytes.div_ceil(4) as u64
}

pub(super) fn error((status, body): (u16, Value)) -> Reply {
    json(status, body)
}

fn json(status: u16, mut body: Value) -> Reply {
    let error_type = body.as_object_mut().and_then(|body| body.remove("__type"));
    let error_type = error_type.and_then(|kind| kind.as_str().map(str::to_owned));
    let payload = Payload::whole(body.to_string());
    Reply::Send { status, content_type: JSON, retry_after: None, error_type, payload }
}

fn ok(content_type: &'static str, payload: Payload) -> Reply {
    Reply::Send { status: 200, content_type, retry_after: None, error_type: None, payload }
}

/// The page's own text, so that a check for it passes, and the model that "read" it.
fn page_text(request: &ModelRequest) -> String {
    let words = match (request.current.as_str(), request.page) {
        ("", Some(page)) => format!("Page {page} has no text of its own."),
        ("", None) => "This page has no text of its own.".to_owned(),
        (words, _) => words.to_owned(),
    };
    format!("{words}\n\n[read by {}]", request.model)
}

fn first_half(text: &str) -> &str {
    let middle = text.chars().count() / 2;
    text.char_indices().nth(middle).map_or(text, |(cut, _)| &text[..cut])
}

/// A valid answer around the padding: only its size is wrong.
fn huge(dialect: &dyn Dialect, request: &ModelRequest, bytes: u64) -> Payload {
    const PLACEHOLDER: &str = "PADDING";
    let frame = dialect.answer(request, PLACEHOLDER, Finish::Complete).to_string();
    let (before, after) = frame.rsplit_once(PLACEHOLDER).unwrap_or((&frame, ""));
    Payload::padded(before.to_owned(), bytes, after.to_owned())
}
