//! Webhooks: notify URLs of events.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::StatusCode,
};
use everypage_core::{
    notify::{
        webhook,
        webhooks::{self, DEFAULT, MAX_PER_TENANT, Subscription},
    },
    records::ListPage,
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    cursor::ListParams,
    problem::{Code, Problem},
    request,
    shape::{List, Webhook, WebhookDelivery, WebhookDeliveryList, WebhookList},
};

/// Longest URL that is stored.
const MAX_URL: usize = 2000;
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

fn none() -> Problem {
    Problem::new(Code::NoWebhook, "the tenant has no webhook; PUT {\"url\": …} to set one")
}

fn unknown(id: &str) -> Problem {
    Problem::new(Code::NoWebhook, format!("the tenant has no webhook {id}; GET /v1/webhooks lists them"))
}

fn check_url(api: &Api, url: Option<String>) -> Result<String, Problem> {
    let url = url.unwrap_or_default();
    if url.len() > MAX_URL {
        return Err(Problem::invalid("url", format!("has more than {MAX_URL} characters")));
    }
    api.app.publisher.hooks.check(&url).map_err(|reason| Problem::invalid("url", reason))?;
    Ok(url)
}

/// List the tenant's webhooks
#[utoipa::path(get, path = "/v1/webhooks", operation_id = "list_webhooks", tag = "operation",
    responses((status = 200, description = "All webhooks, without their secrets", body = WebhookList)))]
pub async fn list(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<WebhookList>, Problem> {
    let items = webhooks::list(&api.app.store, &caller.tenant).await?;
    Ok(Json(List::new("webhooks", ListPage { items, next: None }, Webhook::from)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionRequest {
    /// Receives a POST for each event, and responds with 2xx.
    #[schema(example = "https://example.com/hooks/everypage")]
    url: Option<String>,
    /// Types of events, or prefixes such as `job.*`; `*` for all. Without any, the URL is notified when a job
    /// ends.
    #[serde(default)]
    #[schema(example = json!(["job.failed", "credit.*"]))]
    events: Vec<String>,
    /// Makes a new secret; a new webhook always has one.
    #[serde(default)]
    new_secret: bool,
}

impl SubscriptionRequest {
    fn read(body: &Bytes, api: &Api) -> Result<(Subscription, bool), Problem> {
        let request: Self = request::json(body)?;
        let url = check_url(api, request.url)?;
        webhook::check_types(&request.events).map_err(|reason| Problem::invalid("events", reason))?;
        Ok((Subscription { url, events: request.events }, request.new_secret))
    }
}

/// Add a webhook: a URL that is notified of the events of some types
///
/// Messages are signed as Standard Webhooks specifies, with the secret in the response, which is not shown
/// again. A message that the URL does not accept is retried after 1, 4 and 16 seconds and then becomes a dead
/// letter. Other webhooks are not affected.
#[utoipa::path(post, path = "/v1/webhooks", operation_id = "add_webhook", tag = "operation",
    request_body = SubscriptionRequest,
    responses((status = 201, description = "The URL is notified from now on", body = Webhook)))]
pub async fn add(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<(StatusCode, Json<Webhook>), Problem> {
    let (wanted, _) = SubscriptionRequest::read(&body, &api)?;
    let (store, vault) = (&api.app.store, api.app.vault.as_ref());
    let Some((hook, secret)) = webhooks::add(store, vault, &caller.tenant, &wanted, &caller.user).await?
    else {
        return Err(Problem::invalid("url", format!("the tenant has {MAX_PER_TENANT} webhooks already")));
    };
    Ok((StatusCode::CREATED, Json(Webhook { secret: Some(secret.expose().to_owned()), ..hook.into() })))
}

/// Get a webhook
#[utoipa::path(get, path = "/v1/webhooks/{id}", operation_id = "get_webhook_by_id", tag = "operation",
    params(("id" = String, Path, description = "The id of the webhook")),
    responses((status = 200, description = "The webhook, without its secret", body = Webhook)))]
pub async fn get(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
) -> Result<Json<Webhook>, Problem> {
    let hook = webhooks::of_tenant(&api.app.store, &caller.tenant, &id).await?;
    Ok(Json(hook.ok_or_else(|| unknown(&id))?.into()))
}

/// Change a webhook's URL and types of events
///
/// The secret stays, unless `new_secret` asks for another one. Messages that wait go to the new URL.
#[utoipa::path(put, path = "/v1/webhooks/{id}", operation_id = "change_webhook", tag = "operation",
    params(("id" = String, Path, description = "The id of the webhook")), request_body = SubscriptionRequest,
    responses((status = 200, description = "The webhook as it is now", body = Webhook)))]
pub async fn change(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Webhook>, Problem> {
    let (wanted, rotate) = SubscriptionRequest::read(&body, &api)?;
    let (store, vault) = (&api.app.store, api.app.vault.as_ref());
    let changed = webhooks::change(store, vault, &caller.tenant, &id, &wanted, rotate, &caller.user).await?;
    let (hook, secret) = changed.ok_or_else(|| unknown(&id))?;
    Ok(Json(Webhook { secret: secret.map(|secret| secret.expose().to_owned()), ..hook.into() }))
}

/// Remove a webhook
///
/// Its messages that wait are not sent, and its dead letters are discarded.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", operation_id = "remove_webhook", tag = "operation",
    params(("id" = String, Path, description = "The id of the webhook")),
    responses((status = 204, description = "The URL is not notified any more")))]
pub async fn remove(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    match webhooks::remove(&api.app.store, &caller.tenant, &id, &caller.user).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown(&id)),
    }
}

/// List the messages to a webhook, newest first
///
/// What was sent in the last 30 days and what waits: with the number of attempts, the time of the next one, and
/// why the last one failed.
#[utoipa::path(get, path = "/v1/webhooks/{id}/deliveries", operation_id = "list_webhook_deliveries", tag = "operation",
    params(("id" = String, Path, description = "The id of the webhook"), ListParams),
    responses((status = 200, description = "Up to 200 messages, 50 by default", body = WebhookDeliveryList)))]
pub async fn deliveries(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    Query(params): Query<ListParams>,
) -> Result<Json<WebhookDeliveryList>, Problem> {
    if webhooks::of_tenant(&api.app.store, &caller.tenant, &id).await?.is_none() {
        return Err(unknown(&id));
    }
    let list = format!("webhooks/{id}");
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after(&list)?);
    let page = webhooks::deliveries(&api.app.store, &caller.tenant, &id, after, limit).await?;
    Ok(Json(List::new(&list, page, WebhookDelivery::from)))
}

/// Get the tenant's webhook
///
/// The webhook `default`: the one that PUT sets here.
#[utoipa::path(get, path = "/v1/webhook", operation_id = "get_webhook", tag = "operation",
    responses((status = 200, description = "The webhook", body = Webhook)))]
pub async fn show(State(api): State<Api>, Operator(caller): Operator) -> Result<Json<Webhook>, Problem> {
    let hook = webhooks::of_tenant(&api.app.store, &caller.tenant, DEFAULT).await?;
    Ok(Json(hook.ok_or_else(none)?.into()))
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
/// seconds and then becomes a dead letter. More webhooks, for events of any types: `POST /v1/webhooks`.
#[utoipa::path(put, path = "/v1/webhook", operation_id = "set_webhook", tag = "operation", request_body = WebhookRequest,
    responses((status = 200, description = "The URL is notified from now on", body = Webhook)))]
pub async fn set(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Webhook>, Problem> {
    let request: WebhookRequest = request::json(&body)?;
    let url = check_url(&api, request.url)?;
    let secret =
        webhooks::set(&api.app.store, api.app.vault.as_ref(), &caller.tenant, &url, &caller.user).await?;
    let secret = Some(secret.expose().to_owned());
    Ok(Json(Webhook { id: DEFAULT.to_owned(), url, events: Vec::new(), secret, created_at: None }))
}

/// Remove the tenant's webhook
#[utoipa::path(delete, path = "/v1/webhook", operation_id = "unset_webhook", tag = "operation",
    responses((status = 204, description = "The URL is not notified any more")))]
pub async fn unset(State(api): State<Api>, Operator(caller): Operator) -> Result<StatusCode, Problem> {
    match webhooks::remove(&api.app.store, &caller.tenant, DEFAULT, &caller.user).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(none()),
    }
}
