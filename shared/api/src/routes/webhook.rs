//! Where the tenant is told of the ends of its jobs.

use axum::{Json, body::Bytes, extract::State, http::StatusCode};
use everypage_core::store::webhooks;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    problem::{self, Problem},
    shape::Webhook,
};

/// Longest address that is kept.
const LONGEST: usize = 2000;

fn none() -> Problem {
    Problem::new(&problem::NO_WEBHOOK, "nobody is told; PUT {\"url\": …} here to change that")
}

/// Who is told of the ends of the tenant's jobs
#[utoipa::path(get, path = "/v1/webhook", operation_id = "get_webhook", tag = "operation",
    responses((status = 200, description = "Where messages go", body = Webhook)))]
pub async fn show(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<Webhook>, Problem> {
    let hook = webhooks::of_tenant(&api.app, &caller.tenant).await?.ok_or_else(none)?;
    Ok(Json(Webhook { url: hook.url, secret: None, created_at: Some(hook.created_at) }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// Takes a POST for each end and answers 2xx.
    #[schema(example = "https://example.com/hooks/everypage")]
    url: Option<String>,
}

/// Have a server told of every end of the tenant's jobs
///
/// Messages are signed as Standard Webhooks has it, with the secret in the answer: it is new each time
/// and can't be shown again. What is not taken is sent again after 1, 4 and 16 seconds, and is then a
/// dead letter.
#[utoipa::path(put, path = "/v1/webhook", operation_id = "set_webhook", tag = "operation", request_body = WebhookRequest,
    responses((status = 200, description = "It is told from now on", body = Webhook)))]
pub async fn set(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Webhook>, Problem> {
    let request: WebhookRequest = problem::json(&body)?;
    let url = request.url.unwrap_or_default();
    if url.len() > LONGEST {
        return Err(Problem::mistake("url", format!("it has more than {LONGEST} characters")));
    }
    api.app.hooks.check(&url).map_err(|why| Problem::mistake("url", why))?;
    let secret = webhooks::set(&api.app, &caller.tenant, &url).await?;
    Ok(Json(Webhook { url, secret: Some(secret.expose().to_owned()), created_at: None }))
}

/// Tell nobody any more
#[utoipa::path(delete, path = "/v1/webhook", operation_id = "unset_webhook", tag = "operation",
    responses((status = 204, description = "Nobody is told")))]
pub async fn unset(State(api): State<Api>, Operator(caller): Operator) -> Result<StatusCode, Problem> {
    match webhooks::unset(&api.app, &caller.tenant).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(none()),
    }
}
