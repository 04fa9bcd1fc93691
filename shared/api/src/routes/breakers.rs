use axum::{Json, extract::State};
use everypage_core::read::breakers;

use crate::{
    Api,
    auth::Operator,
    problem::Problem,
    shape::{Breaker, BreakerList, List},
};

/// List circuit breakers: state and cooldown of each model
///
/// All tenants share them. A model without failures in the last ten minutes is not listed.
#[utoipa::path(get, path = "/v1/breakers", operation_id = "list_breakers", tag = "operation",
    responses((status = 200, description = "Every breaker with a record", body = BreakerList)))]
pub async fn list(State(api): State<Api>, _: Operator) -> Result<Json<BreakerList>, Problem> {
    let all = breakers::all(&api.app.reader.breakers).await?;
    let items = all.into_iter().map(|(target, breaker)| Breaker::new(target, breaker)).collect();
    Ok(Json(List { items, next: None }))
}
