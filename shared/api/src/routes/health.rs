use std::time::Duration;

use axum::{Json, extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use everypage_core::ports::{clock::within, records::Key};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    Api,
    problem::{self, Problem},
};

/// A storage that takes longer is of no use to callers.
const PATIENCE: Duration = Duration::from_secs(3);

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

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "service", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub async fn document() -> Result<impl IntoResponse, Problem> {
    let text = crate::openapi().to_json().map_err(Problem::internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
