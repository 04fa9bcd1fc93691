use std::time::Duration;

use axum::{Json, extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use everypage_core::{observe::measure::measure, ports::records::Key, time::within};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    problem::{Code, Problem},
    stream::Streams,
};

/// A storage that takes longer counts as unavailable.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(3);

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The health of the process.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Check that the process is alive
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "service", security(()),
    responses((status = 200, description = "The process is alive", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Check that the service can handle requests: its storage responds
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "service", security(()),
    responses((status = 200, description = "The service is ready", body = Health)))]
pub async fn readyz(State(api): State<Api>) -> Result<Json<Health>, Problem> {
    if api.streams.as_ref().is_some_and(Streams::are_ending) {
        return Err(Problem::new(Code::Unavailable, "the service is stopping"));
    }
    let app = &api.app;
    // Not retried: the caller polls.
    let (key, clock) = (Key::new("ready", "ready"), app.store.clock.as_ref());
    match within(clock, STORAGE_TIMEOUT, app.store.records_once.get(&key)).await {
        Some(Ok(_)) => Ok(Json(Health { status: "ok" })),
        Some(Err(fault)) => {
            tracing::warn!(%fault, "not ready");
            Err(Problem::new(Code::Unavailable, "the storage does not respond"))
        }
        None => Err(Problem::new(Code::Unavailable, "the storage takes too long to respond")),
    }
}

/// Get the metrics of the process, for Prometheus
///
/// Not available on AWS, where each function writes its metrics to the log.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "operation",
    responses((status = 200, description = "Prometheus text", body = String, content_type = METRICS)))]
pub async fn metrics(State(api): State<Api>, _: Operator) -> Result<impl IntoResponse, Problem> {
    let Some(metrics) = &api.metrics else {
        return Err(Problem::new(Code::NoMetrics, "this service writes its metrics to the log"));
    };
    if let Err(fault) = measure(&api.app.store, api.app.queue.as_ref(), &api.app.reader.breakers).await {
        // Counters are still right; the depths of queues keep their last values.
        tracing::warn!(%fault, "queue depths not measured");
    }
    Ok(([(CONTENT_TYPE, METRICS)], metrics()))
}

/// Get this document
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "service", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub async fn document() -> Result<impl IntoResponse, Problem> {
    let text = crate::openapi().to_json().map_err(Problem::internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
