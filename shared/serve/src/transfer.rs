//! How responses travel: compressed where the client accepts it, and to pages of other origins where they are
//! configured (`CORS_ORIGINS`).

use std::time::Duration;

use axum::{
    Router,
    http::{
        HeaderName, HeaderValue, Method,
        header::{
            ACCEPT_RANGES, AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
            IF_RANGE, LOCATION, RANGE, RETRY_AFTER,
        },
    },
    middleware,
    response::Response,
};
use tower_http::{
    compression::{
        CompressionLayer,
        predicate::{DefaultPredicate, Predicate, SizeAbove},
    },
    cors::CorsLayer,
};

/// Smaller responses are not compressed: they fit into one packet.
const MIN_COMPRESSED: u16 = 1024;
/// How long a browser remembers what it may send.
const PREFLIGHT_AGE: Duration = Duration::from_secs(3600);

const REQUEST_HEADERS: [HeaderName; 9] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    IF_NONE_MATCH,
    IF_RANGE,
    RANGE,
    HeaderName::from_static("everypage-password"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
];
const RESPONSE_HEADERS: [HeaderName; 8] = [
    ACCEPT_RANGES,
    CONTENT_RANGE,
    ETAG,
    LOCATION,
    RETRY_AFTER,
    HeaderName::from_static("everypage-result-provisional"),
    HeaderName::from_static("everypage-result-version"),
    HeaderName::from_static("x-request-id"),
];

/// Outermost: a preflight request has no key, and refusals must be readable for the page too.
pub fn layer(router: Router, origins: &[String]) -> Router {
    // Images are compressed already, and event streams must not be held back: both are left alone.
    let compressed = DefaultPredicate::new().and(SizeAbove::new(MIN_COMPRESSED));
    let router = router
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(middleware::map_response(weaken_tag));
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    match origins.is_empty() {
        true => router,
        false => router.layer(
            CorsLayer::new()
                .allow_origin(origins)
                .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
                .allow_headers(REQUEST_HEADERS)
                .expose_headers(RESPONSE_HEADERS)
                .max_age(PREFLIGHT_AGE),
        ),
    }
}

/// A compressed response has other bytes than the one that its ETag names, so the tag becomes a weak one.
async fn weaken_tag(mut response: Response) -> Response {
    if response.headers().contains_key(CONTENT_ENCODING)
        && let Some(tag) = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok())
        && !tag.starts_with("W/")
        && let Ok(weak) = HeaderValue::from_str(&format!("W/{tag}"))
    {
        response.headers_mut().insert(ETAG, weak);
    }
    response
}
