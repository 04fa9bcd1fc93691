use axum::{Json, extract::State};
use everypage_core::tenants;

use crate::{Api, auth::Known, problem::Problem, shape::Me};

/// Get the caller, and the features and limits of the service
#[utoipa::path(get, path = "/v1/me", operation_id = "get_me", tag = "service",
    responses((status = 200, description = "The caller and the service", body = Me)))]
pub async fn me(State(api): State<Api>, Known(caller): Known) -> Result<Json<Me>, Problem> {
    let settings = tenants::settings(&api.app.tenants, &caller.tenant).await?;
    Ok(Json(Me {
        tenant: caller.tenant.to_string(),
        user: caller.user,
        role: caller.role,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        environment: settings.environment.clone(),
        max_file_bytes: settings.pdf.max_file_bytes,
        max_pages: settings.pdf.max_pages,
        uploads: api.upload_links.is_some(),
        streams: api.streams.is_some(),
        providers: settings.failover_order().providers(),
    }))
}
