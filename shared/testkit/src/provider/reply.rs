//! What a behaviour puts on the wire.

use std::time::Duration;

use everypage_core::domain::target::Provider;
use hyper::body::Bytes;
use serde_json::Value;

use super::{
    Behaviour,
    body::Payload,
    request::Asked,
    vendor::{self, End},
};

pub(super) enum Reply {
    /// Nothing, for as long as the client stays.
    Silence,
    /// The connection closes.
    Close,
    Send {
        status: u16,
        content_type: &'static str,
        retry_after: Option<u32>,
        payload: Payload,
    },
}

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

const WEB_PAGE: &str = "<!DOCTYPE html><html><head><title>Sign in</title></head>\
                        <body><h1>Please sign in to the network</h1></body></html>";

/// Enough repetition that any check for it must notice.
const LOOP_LINES: usize = 400;

impl Reply {
    /// `behaviour` without its delays, which are over.
    pub(super) fn to(asked: &Asked, behaviour: &Behaviour) -> Self {
        let page = || page_text(asked);
        let answer = |text: &str, end| vendor::answer(asked, text, end);
        match behaviour {
            Behaviour::Answer | Behaviour::Delay { .. } => json(200, answer(&page(), End::Complete)),
            Behaviour::AnswerText(text) => json(200, answer(text, End::Complete)),
            Behaviour::Status(status) => json(*status, vendor::error(asked, *status)),
            Behaviour::RateLimited { retry_after } => Self::Send {
                status: 429,
                content_type: JSON,
                retry_after: *retry_after,
                payload: Payload::whole(vendor::error(asked, 429).to_string()),
            },
            Behaviour::Quota => {
                let (status, body) = vendor::quota(asked.provider);
                json(status, body)
            }
            Behaviour::Hang => Self::Silence,
            Behaviour::Reset => Self::Close,
            Behaviour::SlowDrip { bytes, every_ms } => {
                let body = answer(&page(), End::Complete).to_string();
                ok(JSON, Payload::drip(body, *bytes, Duration::from_millis(*every_ms)))
            }
            Behaviour::HalfBody => ok(JSON, Payload::half(answer(&page(), End::Complete).to_string())),
            Behaviour::Html => ok(HTML, Payload::whole(WEB_PAGE)),
            Behaviour::Garbage => {
                ok(JSON, Payload::whole(Bytes::from_static(b"\x00\x9f{{ not json, nor text \xff")))
            }
            Behaviour::WrongJson => ok(JSON, Payload::whole(r#"{"status":"ok","data":[1,2,3]}"#)),
            Behaviour::Huge { bytes } => ok(JSON, huge(asked, *bytes)),
            Behaviour::Refusal => json(200, answer(declined(asked.provider), End::Refusal)),
            Behaviour::Truncated => json(200, answer(first_half(&page()), End::Length)),
            Behaviour::Loop => json(200, answer(&"The same line again.\n".repeat(LOOP_LINES), End::Complete)),
            Behaviour::Empty => json(200, answer("", End::Complete)),
        }
    }
}

fn json(status: u16, body: Value) -> Reply {
    Reply::Send { status, content_type: JSON, retry_after: None, payload: Payload::whole(body.to_string()) }
}

fn ok(content_type: &'static str, payload: Payload) -> Reply {
    Reply::Send { status: 200, content_type, retry_after: None, payload }
}

/// The page's own words, so that a check for them passes, and who "read" them.
fn page_text(asked: &Asked) -> String {
    let words = match (asked.current.as_str(), asked.page) {
        ("", Some(page)) => format!("Page {page} has no text of its own."),
        ("", None) => "This page has no text of its own.".to_owned(),
        (words, _) => words.to_owned(),
    };
    format!("{words}\n\n[read by {}]", asked.model)
}

/// Anthropic declines without words.
fn declined(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAi => "I'm sorry, I can't help with that.",
        Provider::Anthropic => "",
    }
}

fn first_half(text: &str) -> &str {
    let middle = text.chars().count() / 2;
    text.char_indices().nth(middle).map_or(text, |(cut, _)| &text[..cut])
}

/// A true answer around the padding: nothing but its size is wrong with it.
fn huge(asked: &Asked, bytes: u64) -> Payload {
    const HERE: &str = "PADDING";
    let frame = vendor::answer(asked, HERE, End::Complete).to_string();
    let (before, after) = frame.rsplit_once(HERE).unwrap_or((&frame, ""));
    Payload::padded(before.to_owned(), bytes, after.to_owned())
}
