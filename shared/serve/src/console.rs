//! The web console: static files that send requests to this server only.

use axum::{
    Router,
    extract::Request,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../console/"]
struct Files;

/// Images of pages are fetched with the caller's key and shown from memory (`blob:`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; \
    img-src 'self' blob: data:; connect-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'";

/// One route per file: all files are known when the server starts.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new().route("/", get(|request| file("index.html".into(), request)));
    for name in Files::iter() {
        let path = format!("/{name}");
        // Tests and hidden files of the console's source are not served.
        if !name.split('/').any(|part| part.starts_with('.') || part == "tests") {
            router = router.route(&path, get(move |request| file(name.clone().into_owned(), request)));
        }
    }
    router
}

async fn file(name: String, request: Request) -> Response {
    let Some(found) = Files::get(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let hash = found.metadata.sha256_hash();
    let tag = format!("\"{}\"", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let if_none_match = request.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let headers = [
        // A file keeps its name when it changes: browsers revalidate each time, and mostly get 304.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""))),
        (CONTENT_TYPE, HeaderValue::from_static(media_type(&name))),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    let is_current = if_none_match
        .is_some_and(|tags| tags.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
    match is_current {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, found.data.into_owned()).into_response(),
    }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
