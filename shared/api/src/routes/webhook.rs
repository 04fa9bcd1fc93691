//! Webhooks: notify a URL when a job ends.

use axum::{Json, body::Bytes, extract::State, http::StatusCode};
use everypage_core::notify::webhooks;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    problem::{Code, Problem},
    request,
    shape::Webhook,
};

/// Longest URL that is stored.
const MAX_URL: usize = 2000;

fn none() -> Problem {
    Problem::new(Code::NoWebhook, "the tenant has no webhook; PUT {\"url\": …} to set one")
}

/// Get the tenant's webhook
#[utoipa::path(get, path = "/v1/webhook", operation_id = "get_webhook", tag = "operation",
    responses((status = 200, description = "The webhook", body = Webhook)))]
pub async fn show(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<Webhook>, Problem> {
    let hook = webhooks::of_tenant(&api.app.store, &caller.tenant).await?.ok_or_else(none)?;
    Ok(Json(Webhook { url: hook.url, secret: None, created_at: Some(hook.created_at) }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// Receives a POST for each job that ends, and responds with 2xx.
    #[schema(example = "https://example.com/hooks/everypage")]
    url: Option<String>,
}

/// Set the tenant's webhook: a URL that is notified when a job ends
///
/// Messages are signed as Standard Webhooks specifies, with the secret in the response: each request makes a
/// new one, and it is not shown again. A message that the URL does not accept is retried after 1, 4 and 16
/// seconds and then becomes a dead letter.
#[utoipa::path(put, path = "/v1/webhook", operation_id = "set_webhook", tag = "operation", request_body = WebhookRequest,
    responses((status = 200, description = "The URL is notified from now on", body = Webhook)))]
pub async fn set(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Webhook>, Problem> {
    let request: WebhookRequest = request::json(&body)?;
    let url = request.url.unwrap_or_default();
    if url.len() > MAX_URL {
        return Err(Problem::invalid("url", format!("has more than {MAX_URL} characters")));
    }
    api.app.publisher.hooks.check(&url).map_err(|reason| Problem::invalid("url", reason))?;
    let secret =
        webhooks::set(&api.app.store, api.app.vault.as_ref(), &caller.tenant, &url, &caller.user).await?;
    Ok(Json(Webhook { url, secret: Some(secret.expose().to_owned()), created_at: None }))
}

/// Remove the tenant's webhook
#[utoipa::path(delete, path = "/v1/webhook", operation_id = "unset_webhook", tag = "operation",
    responses((status = 204, description = "No URL is notified")))]
pub async fn unset(State(api): State<Api>, Operator(caller): Operator) -> Result<StatusCode, Problem> {
    match webhooks::unset(&api.app.store, &caller.tenant, &caller.user).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(none()),
    }
}
