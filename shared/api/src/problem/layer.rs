//! Errors that no route returns: the framework's own, and panics.

use std::any::Any;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{
        StatusCode,
        header::{ALLOW, CONTENT_TYPE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{Code, MEDIA_TYPE, Problem};

/// Longest text of the framework that a problem repeats.
const MAX_TEXT: usize = 4096;

/// Middleware: turns the framework's errors (no such route or method, a malformed parameter) into problems.
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
        String::from_utf8(to_bytes(body, MAX_TEXT).await.unwrap_or_default().into()).unwrap_or_default();
    let (code, detail) = match status {
        StatusCode::NOT_FOUND => (Code::NotFound, format!("there is nothing at {path}")),
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::MethodNotAllowed, format!("{path} does not support {method}"))
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Code::FileTooLarge, text),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (Code::UnsupportedMediaType, text),
        StatusCode::UNPROCESSABLE_ENTITY => (Code::BadOptions, text),
        status if status.is_client_error() => (Code::BadRequest, text),
        _ => return Problem::internal(text).into_response(),
    };
    let mut problem = Problem::new(code, detail).into_response();
    if let Some(allow) = parts.headers.get(ALLOW) {
        problem.headers_mut().insert(ALLOW, allow.clone());
    }
    problem
}

/// Turns a panic of a route into a problem: it fails that request and no other.
pub fn panicked(cause: Box<dyn Any + Send>) -> axum::http::Response<Body> {
    let cause = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
    Problem::internal(cause.unwrap_or("panicked")).into_response()
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
    use tower::ServiceExt;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_problem_that_does_not_show_its_cause() {
        async fn bug() -> &'static str {
            panic!("page 7 says: secret")
        }
        let router = Router::new().route("/", get(bug)).layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = to_bytes(response.into_body(), MAX_TEXT).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("urn:problem:everypage:internal") && !text.contains("secret"), "{text}");
    }
}
