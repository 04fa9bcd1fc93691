//! Routes: the providers' APIs, and the controls for other processes.

use std::{future, io, sync::Arc};

use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    GrammarError, Script,
    body::{self, Body},
    dialect::{DIALECTS, Dialect},
    headers,
    reply::{self, Reply},
    request::ModelRequest,
    running::Decision,
    server::Shared,
};

/// More than any provider accepts.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Some clients request this first.
const MODELS: &str =
    r#"{"object":"list","data":[{"id":"scripted","object":"model","owned_by":"everypage"}]}"#;

pub(super) async fn route(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
        return respond(
            StatusCode::PAYLOAD_TOO_LARGE,
            "text/plain",
            "the request is over 64 MB or broke off",
        );
    };
    let body = body.to_bytes();
    let path = head.uri.path().trim_end_matches('/');
    if let Some(dialect) = DIALECTS.iter().find(|dialect| head.method == Method::POST && dialect.serves(path))
    {
        return play(&shared, *dialect, path, &head.headers, &body).await;
    }
    match (&head.method, path) {
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
            "POST a model call in a provider's API, /script or /reset; GET /calls or /calls/log\n",
        ),
    }
}

/// Plays one call of the script. An error closes the connection without a response.
async fn play(
    shared: &Shared,
    dialect: &dyn Dialect,
    path: &str,
    sent: &HeaderMap,
    body: &[u8],
) -> io::Result<Response<Body>> {
    let request = ModelRequest::read(dialect, path, body);
    let Decision { behaviour, pause, announced, limits, slots } = shared.next(&request);
    let mut call = shared.log.begin(&request, dialect.has_key(sent), &behaviour, pause);
    call.hold(slots);
    if !pause.is_zero() {
        body::wait(pause).await;
    }
    let reply = match dialect.denied(path, sent, body) {
        Some(denied) => reply::error(denied),
        None => Reply::to(dialect, &request, &behaviour),
    };
    let tokens = reply::output_tokens(&request, &behaviour);
    limits.iter().for_each(|limit| limit.answered(tokens, Instant::now()));
    match reply {
        Reply::Silence => future::pending().await,
        Reply::Close => {
            call.sent();
            Err(io::Error::other("the script closes the connection"))
        }
        Reply::Send { status, content_type, retry_after, error_type, payload } => {
            call.respond_with(status);
            let mut response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
            if let Some(seconds) = retry_after {
                response = response.header(RETRY_AFTER, seconds);
            }
            if let Some(kind) = error_type {
                response = response.header("x-amzn-errortype", kind);
            }
            if let Some(length) = payload.announced {
                response = response.header(CONTENT_LENGTH, length);
            }
            headers::announce(response, dialect, &announced)
                .body(payload.into_body(call))
                .map_err(io::Error::other)
        }
    }
}

/// Reads JSON if the text starts as an array, else the text form.
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
