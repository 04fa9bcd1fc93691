//! The tenant's credits and purchases.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use everypage_core::{
    billing::{accounts, buy as buying, buy::PurchaseRequest, purchases},
    ids::PurchaseId,
    sagas::progress,
    secret::Secret,
    tenants,
};
use serde::Deserialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::{Known, Operator},
    cursor::ListParams,
    problem::{self, Code, Problem},
    request,
    shape::{Account, LedgerEntry, LedgerEntryList, List, Purchase, PurchaseList},
};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
/// The request retries the payment for this time; then the purchase continues in the background. One call
/// to the payment service takes up to 20 s, and API Gateway waits 29 s for the response.
const PAYMENT_RETRY_TIME: Duration = Duration::from_secs(5);
/// Longest reference to a payer's card or account.
const MAX_METHOD: usize = 500;
const MAX_ID: usize = 64;

/// Get the tenant's credits
#[utoipa::path(get, path = "/v1/account", operation_id = "get_account", tag = "account",
    responses((status = 200, description = "The current balance", body = Account)))]
pub async fn show(State(api): State<Api>, Known(caller): Known) -> Result<Json<Account>, Problem> {
    let settings = tenants::settings(&api.app.tenants, &caller.tenant).await?;
    accounts::welcome(&api.app.store, &api.app.tenants, &caller.tenant).await?;
    let account = accounts::load(&api.app.store, &caller.tenant).await?.value;
    Ok(Json(Account::new(account, &settings)))
}

/// List the changes of the balance, newest first
#[utoipa::path(get, path = "/v1/account/ledger", operation_id = "list_ledger", tag = "account", params(ListParams),
    responses((status = 200, description = "Up to 500 entries, 50 by default", body = LedgerEntryList)))]
pub async fn ledger(
    State(api): State<Api>,
    Known(caller): Known,
    Query(params): Query<ListParams>,
) -> Result<Json<LedgerEntryList>, Problem> {
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after("ledger")?);
    let page = accounts::ledger_page(&api.app.store, &caller.tenant, after, limit).await?;
    Ok(Json(List::new("ledger", page, LedgerEntry::from)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditsRequest {
    /// The number of credits; one pays for one page read by AI.
    #[schema(example = 1000, minimum = 1)]
    credits: Option<u64>,
    /// The payment service's reference to the payer's card or account; without it, the payment service
    /// uses its default. Everypage stores it encrypted until the payment is made, then deletes it.
    #[schema(example = "pm_card_visa")]
    method: Option<String>,
}

/// Buy credits
///
/// The response waits up to 25 seconds for the payment. A purchase that takes longer, or needs a person,
/// gives `202`: poll its `Location`. A purchase that can't be completed is undone and refunded. A request
/// with the same `Idempotency-Key` gives the same purchase.
#[utoipa::path(post, path = "/v1/account/credits", operation_id = "buy_credits", tag = "account", request_body = CreditsRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Identifies the request: repeating it is safe")),
    responses(
        (status = 201, description = "The credits are in the balance", body = Purchase, headers(("location" = String))),
        (status = 200, description = "An earlier request with this key bought the credits", body = Purchase, headers(("location" = String))),
        (status = 202, description = "The purchase continues, or needs a person (`state` is `MANUAL`)", body = Purchase, headers(("location" = String))),
        (status = 402, description = "The payment failed; nothing was charged, or it was refunded", body = problem::Document, content_type = "application/problem+json"),
        (status = 409, description = "Credits can't be bought on this service", body = problem::Document, content_type = "application/problem+json"),
        (status = 422, description = "Invalid fields", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn buy(
    State(api): State<Api>,
    Operator(caller): Operator,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let request: CreditsRequest = request::json(&body)?;
    let idempotency_key =
        request::idempotency_key(&headers).map_err(|error| Problem::invalid_fields(vec![error]))?;
    let credits =
        request.credits.ok_or_else(|| Problem::invalid("credits", "missing; send a number such as 1000"))?;
    let method = request.method.filter(|method| !method.is_empty());
    if method.as_ref().is_some_and(|method| method.len() > MAX_METHOD) {
        return Err(Problem::invalid("method", format!("has more than {MAX_METHOD} bytes")));
    }
    let request = PurchaseRequest {
        tenant: caller.tenant,
        by: caller.user,
        credits,
        method: method.map(Secret::new),
        idempotency_key,
    };
    accounts::welcome(&api.app.store, &api.app.tenants, &request.tenant).await?;
    let (started, existed) = buying::start(&api.app.billing, request).await?;
    // The purchase is stored and continues by itself. An error would make the caller retry and buy twice.
    let purchase =
        buying::drive(&api.app.billing, &started.id, PAYMENT_RETRY_TIME).await.unwrap_or_else(|error| {
            warn!(%error, purchase = %started.id, "purchase continues in the background");
            started
        });
    let status = match purchase.progress.state {
        progress::State::Completed if existed => StatusCode::OK,
        progress::State::Completed => StatusCode::CREATED,
        progress::State::Compensated => {
            let reason = purchase.progress.reason.unwrap_or_default();
            let detail = format!("purchase {} was undone: {reason}", purchase.id);
            return Err(Problem::new(Code::NotPaid, detail));
        }
        _ => StatusCode::ACCEPTED,
    };
    let location = [(LOCATION, format!("/v1/account/purchases/{}", purchase.id))];
    Ok((status, location, Json(Purchase::from(purchase))).into_response())
}

/// List the tenant's purchases, newest first
#[utoipa::path(get, path = "/v1/account/purchases", operation_id = "list_purchases", tag = "account", params(ListParams),
    responses((status = 200, description = "Up to 500 purchases, 50 by default", body = PurchaseList)))]
pub async fn list(
    State(api): State<Api>,
    Known(caller): Known,
    Query(params): Query<ListParams>,
) -> Result<Json<PurchaseList>, Problem> {
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after("purchases")?);
    let page = purchases::list_page(&api.app.store, &caller.tenant, after, limit).await?;
    Ok(Json(List::new("purchases", page, Purchase::from)))
}

/// Get a purchase
#[utoipa::path(get, path = "/v1/account/purchases/{id}", operation_id = "get_purchase", tag = "account", params(("id" = String, Path, description = "The id of the purchase")),
    responses((status = 200, description = "The purchase in its current state", body = Purchase)))]
pub async fn purchase(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<Purchase>, Problem> {
    let unknown = || Problem::new(Code::UnknownPurchase, "there is no such purchase");
    if id.is_empty() || id.len() > MAX_ID {
        return Err(unknown());
    }
    let found = purchases::find(&api.app.store, &PurchaseId::new(id)).await?.map(|kept| kept.value);
    let found = found.filter(|purchase| purchase.order.tenant == caller.tenant).ok_or_else(unknown)?;
    Ok(Json(found.into()))
}
