use std::time::Duration;

use axum::{Json, extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use everypage_core::{
    ports::{clock::within, records::Key},
    usecases::measure::measure,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    problem::{self, Problem},
    stream::Streams,
};

/// A storage that takes longer is of no use to callers.
const PATIENCE: Duration = Duration::from_secs(3);

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Is the process alive?
#[utoipa::path(get, path = "/healthz", operation_id = "get_health", tag = "service", security(()),
    responses((status = 200, description = "It is", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Can it answer requests: does its storage answer?
#[utoipa::path(get, path = "/readyz", operation_id = "get_readiness", tag = "service", security(()),
    responses((status = 200, description = "It can", body = Health)))]
pub async fn readyz(State(api): State<Api>) -> Result<Json<Health>, Problem> {
    if api.streams.as_ref().is_some_and(Streams::are_ending) {
        return Err(Problem::new(&problem::UNAVAILABLE, "it is being stopped"));
    }
    let app = &api.app;
    // Once, not retried: whoever asks will ask again.
    let (key, clock) = (Key::new("ready", "ready"), app.clock.as_ref());
    match within(clock, PATIENCE, app.records_once.get(&key)).await {
        Some(Ok(_)) => Ok(Json(Health { status: "ok" })),
        Some(Err(fault)) => {
            tracing::warn!(%fault, "not ready");
            Err(Problem::new(&problem::UNAVAILABLE, "the storage does not answer"))
        }
        None => Err(Problem::new(&problem::UNAVAILABLE, "the storage takes too long to answer")),
    }
}

/// What happened since the process started, for Prometheus
///
/// Where each function writes its own to the log, as on AWS, there is nothing here.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "operation",
    responses((status = 200, description = "Prometheus text", body = String, content_type = METRICS)))]
pub async fn metrics(State(api): State<Api>, _: Operator) -> Result<impl IntoResponse, Problem> {
    let Some(metrics) = &api.metrics else {
        return Err(Problem::new(&problem::NO_METRICS, "metrics of this service are in its log"));
    };
    if let Err(fault) = measure(&api.app).await {
        // Counters are still worth telling; depths are as they were.
        tracing::warn!(%fault, "depths not measured");
    }
    Ok(([(CONTENT_TYPE, METRICS)], metrics()))
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "service", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub async fn document() -> Result<impl IntoResponse, Problem> {
    let text = crate::openapi().to_json().map_err(Problem::internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
