use axum::{Json, extract::State};
use everypage_core::store::breakers;

use crate::{
    Api,
    auth::Operator,
    problem::Problem,
    shape::{Breaker, Piece},
};

/// Models that failed lately
///
/// Breakers are shared by all tenants.
#[utoipa::path(get, path = "/v1/breakers", operation_id = "list_breakers", tag = "operation",
    responses((status = 200, description = "Every breaker there is a record of", body = Piece<Breaker>)))]
pub async fn list(State(api): State<Api>, _: Operator) -> Result<Json<Piece<Breaker>>, Problem> {
    let all = breakers::all(&api.app).await?;
    let items = all.into_iter().map(|(target, breaker)| Breaker::new(target, breaker)).collect();
    Ok(Json(Piece { items, next: None }))
}
