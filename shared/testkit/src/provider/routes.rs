//! What each path does: the two vendors' APIs, and the controls for other processes.

use std::{future, io, sync::Arc};

use everypage_core::domain::target::Provider;
use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;

use super::{
    GrammarError, Script,
    body::{self, Body},
    reply::Reply,
    request::Asked,
    server::Shared,
};

/// The largest request that is read; more than either vendor takes.
const REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Some clients ask for this before anything else.
const MODELS: &str =
    r#"{"object":"list","data":[{"id":"scripted","object":"model","owned_by":"everypage"}]}"#;

pub(super) async fn route(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, REQUEST_BYTES).collect().await else {
        return respond(
            StatusCode::PAYLOAD_TOO_LARGE,
            "text/plain",
            "the request is over 64 MB or broke off",
        );
    };
    let body = body.to_bytes();
    match (&head.method, head.uri.path().trim_end_matches('/')) {
        (&Method::POST, "/v1/chat/completions" | "/chat/completions") => {
            play(&shared, Provider::OpenAi, &head.headers, &body).await
        }
        (&Method::POST, "/v1/messages") => play(&shared, Provider::Anthropic, &head.headers, &body).await,
        (&Method::GET, "/v1/models") => respond(StatusCode::OK, "application/json", MODELS),
        (&Method::GET, "/calls") => respond_json(&shared.log.counts()),
        (&Method::GET, "/calls/log") => respond_json(&shared.log.calls()),
        (&Method::POST, "/script") => match read_script(&body) {
            Ok(script) => {
                let rules = script.rules.len();
                shared.play(script);
                respond(StatusCode::OK, "text/plain", format!("{rules} rules\n"))
            }
            Err(fault) => respond(StatusCode::BAD_REQUEST, "text/plain", format!("{fault}\n")),
        },
        (&Method::POST, "/reset") => {
            shared.reset();
            respond(StatusCode::OK, "text/plain", "reset\n")
        }
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            "POST /v1/chat/completions, /v1/messages, /script, /reset; GET /calls, /calls/log\n",
        ),
    }
}

/// One call of the script. An error closes the connection without a response.
async fn play(
    shared: &Shared,
    provider: Provider,
    headers: &HeaderMap,
    body: &[u8],
) -> io::Result<Response<Body>> {
    let asked = Asked::read(provider, body);
    let behaviour = shared.next(&asked);
    let mut call = shared.log.begin(&asked, has_key(provider, headers), &behaviour);
    let (pause, behaviour) = behaviour.unwrapped();
    if !pause.is_zero() {
        body::wait(pause).await;
    }
    match Reply::to(&asked, behaviour) {
        Reply::Silence => future::pending().await,
        Reply::Close => {
            call.sent();
            Err(io::Error::other("the script closes the connection"))
        }
        Reply::Send { status, content_type, retry_after, payload } => {
            let mut response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
            if let Some(seconds) = retry_after {
                response = response.header(RETRY_AFTER, seconds);
            }
            if let Some(length) = payload.announced {
                response = response.header(CONTENT_LENGTH, length);
            }
            response.body(payload.into_body(call)).map_err(io::Error::other)
        }
    }
}

/// Whether the caller identified itself as this vendor wants it. The key itself is not kept.
fn has_key(provider: Provider, headers: &HeaderMap) -> bool {
    match provider {
        Provider::OpenAi => {
            headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "))
        }
        Provider::Anthropic => headers.contains_key("x-api-key") && headers.contains_key("anthropic-version"),
    }
}

/// JSON where it begins as that, and otherwise the text form.
fn read_script(body: &[u8]) -> Result<Script, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the script is not UTF-8".to_owned())?;
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map_err(|error| format!("the script is not valid JSON: {error}")),
        false => text.parse().map_err(|error: GrammarError| error.to_string()),
    }
}

fn respond_json(value: &impl Serialize) -> io::Result<Response<Body>> {
    respond(StatusCode::OK, "application/json", serde_json::to_vec(value)?)
}

fn respond(status: StatusCode, content_type: &str, text: impl Into<Bytes>) -> io::Result<Response<Body>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response.body(body::plain(text)).map_err(io::Error::other)
}
