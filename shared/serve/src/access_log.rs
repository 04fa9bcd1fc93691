//! The access log: caller, route, status and duration of every request. Never the query, which may hold
//! names of documents, and no header.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use everypage_api::Caller;
use everypage_core::{ports::clock::Clock, time::until};
use tracing::info;

pub fn layer(router: Router, clock: Arc<dyn Clock>) -> Router {
    router.layer(middleware::from_fn_with_state(clock, write))
}

async fn write(State(clock): State<Arc<dyn Clock>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let started = clock.now();
    let response = next.run(request).await;
    let caller = response.extensions().get::<Caller>();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    info!(
        %method,
        path,
        status = response.status().as_u16(),
        ms = until(started, clock.now()).as_millis() as u64,
        tenant = caller.map(|caller| caller.tenant.as_str()),
        user = caller.map(|caller| caller.user.as_str()),
        request = header("x-request-id"),
        "request"
    );
    response
}
