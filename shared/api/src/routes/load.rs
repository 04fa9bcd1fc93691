use axum::{Json, extract::State};
use everypage_core::{
    dead_letters,
    providers::target::{Target, Tier},
    read::slots,
    telemetry::metrics::MAX_COUNTED_DEAD_LETTERS,
};

use crate::{
    Api,
    auth::Operator,
    problem::Problem,
    shape::{InFlight, Lane, Load, name},
};

/// Get the load of the queue and of the models
///
/// Lanes and models are those of all tenants together; dead letters are those of the caller's tenant.
#[utoipa::path(get, path = "/v1/load", operation_id = "get_load", tag = "operation",
    responses((status = 200, description = "Waiting pages, calls in flight and dead letters", body = Load)))]
pub async fn load(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<Load>, Problem> {
    let app = &api.app;
    let lanes = app.queue.depths().await?.into_iter();
    let lanes = lanes.map(|(lane, waiting)| Lane { priority: name(lane).to_lowercase(), waiting }).collect();
    let mut targets: Vec<Target> = Vec::new();
    for tier in [Tier::Primary, Tier::Fast, Tier::Secondary] {
        targets.extend(app.settings.failover_order().steps(tier));
    }
    targets.sort_by_key(Target::to_string);
    targets.dedup();
    let mut models = Vec::with_capacity(targets.len());
    for target in targets {
        models.push(InFlight {
            in_flight: slots::in_use(&app.reader.slots, &target).await?,
            limit: app.settings.max_inflight_per_model,
            target: target.to_string(),
        });
    }
    let dead_letters =
        dead_letters::count_waiting_of(&app.store, &caller.tenant, MAX_COUNTED_DEAD_LETTERS).await?;
    Ok(Json(Load { lanes, models, dead_letters }))
}
