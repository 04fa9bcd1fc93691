//! Notices to the people of the caller's tenant.

use axum::{
    Json,
    extract::{Query, State},
};
use everypage_core::notices;

use crate::{
    Api,
    auth::Operator,
    cursor::ListParams,
    problem::Problem,
    shape::{List, Notice, NoticeList},
};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

/// List notices, newest first
///
/// Dead letters, plans that need approval, bad keys, purchases that need an operator, and more: what
/// happened, what to do, and whether a person was notified.
#[utoipa::path(get, path = "/v1/notices", operation_id = "list_notices", tag = "operation", params(ListParams),
    responses((status = 200, description = "Up to 200 notices, 50 by default", body = NoticeList)))]
pub async fn list(
    State(api): State<Api>,
    Operator(caller): Operator,
    Query(params): Query<ListParams>,
) -> Result<Json<NoticeList>, Problem> {
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after("notices")?);
    let page = notices::list_page(&api.app.store, &caller.tenant, after, limit).await?;
    Ok(Json(List::new("notices", page, Notice::from)))
}
