use axum::{Json, extract::State};
use everypage_core::{dead_letters, providers::target::Target, telemetry::metrics::MAX_COUNTED_DEAD_LETTERS};

use crate::{
    Api,
    auth::Operator,
    problem::Problem,
    shape::{InFlight, Lane, Load},
};

/// Get the load of the queue and of the models
///
/// Lanes and models are those of all tenants together; dead letters are those of the caller's tenant.
#[utoipa::path(get, path = "/v1/load", operation_id = "get_load", tag = "operation",
    responses((status = 200, description = "Waiting pages, calls in flight and dead letters", body = Load)))]
pub async fn load(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<Load>, Problem> {
    let app = &api.app;
    let lanes = app.queue.depths().await?.into_iter();
    let lanes = lanes.map(|(lane, waiting)| Lane { priority: lane.into(), waiting }).collect();
    let mut targets = app.settings.failover_order().targets();
    targets.sort_by_key(Target::to_string);
    let mut models = Vec::with_capacity(targets.len());
    for target in targets {
        models.push(InFlight {
            in_flight: app.reader.slots.in_use(&target).await?,
            limit: app.reader.paces.limit(&target).await,
            paused_until: app.reader.paces.paused(&target).await.map(|until| until.to_string()),
            target: target.to_string(),
        });
    }
    let dead_letters =
        dead_letters::count_waiting_of(&app.store, &caller.tenant, MAX_COUNTED_DEAD_LETTERS).await?;
    Ok(Json(Load { lanes, models, dead_letters }))
}
