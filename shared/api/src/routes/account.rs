//! The tenant's credits, and buying more.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use everypage_core::{
    domain::{ids::PurchaseId, purchase, secret::Secret},
    store::{accounts, listing, purchases, tenants},
    usecases::purchase::{self as buying, Wish},
};
use serde::Deserialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::{Known, Operator},
    cursor::{self, Place},
    problem::{self, Problem},
    shape::{Account, LedgerEntry, Piece, Purchase},
    spool,
};

const USUAL: usize = 50;
const MOST: usize = 500;
/// So long after a caller came the payment is still asked for anew; then it goes on without them. Asking
/// may take 20 s, and on AWS an answer has to be there after 29.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest name of a payer's card or account.
const LONGEST_METHOD: usize = 500;
const LONGEST_ID: usize = 64;

/// The tenant's credits
#[utoipa::path(get, path = "/v1/account", operation_id = "get_account", tag = "account",
    responses((status = 200, description = "As they are now", body = Account)))]
pub async fn show(State(api): State<Api>, Known(caller): Known) -> Result<Json<Account>, Problem> {
    let settings = tenants::settings(&api.app, &caller.tenant).await?;
    let account = accounts::load(&api.app, &caller.tenant).await?.value;
    Ok(Json(Account::new(account, &settings)))
}

/// Every change of the balance, newest first
#[utoipa::path(get, path = "/v1/account/ledger", operation_id = "list_ledger", tag = "account", params(Place),
    responses((status = 200, description = "Up to 500 entries, 50 unless asked otherwise", body = Piece<LedgerEntry>)))]
pub async fn ledger(
    State(api): State<Api>,
    Known(caller): Known,
    Query(place): Query<Place>,
) -> Result<Json<Piece<LedgerEntry>>, Problem> {
    let (limit, after) = (place.limit(USUAL, MOST)?, place.after("ledger")?);
    let piece = listing::ledger(&api.app, &caller.tenant, after, limit).await?;
    let items = piece.items.into_iter().map(LedgerEntry::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("ledger", &next)) }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditsRequest {
    /// How many; one is one page read by AI.
    #[schema(example = 1000, minimum = 1)]
    credits: Option<u64>,
    /// What the payment service knows the payer's card or account by; its own default otherwise. Kept
    /// sealed until the payment is made, then forgotten.
    #[schema(example = "pm_card_visa")]
    method: Option<String>,
}

/// Buy credits
///
/// The answer waits up to 25 seconds for the payment; a purchase that takes longer, or waits for a person,
/// is `202`: look at its address. What can't be completed is undone, down to the money. The same `Idempotency-Key`
/// gives the same purchase.
#[utoipa::path(post, path = "/v1/account/credits", operation_id = "buy_credits", tag = "account", request_body = CreditsRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The caller's own name for the request")),
    responses(
        (status = 201, description = "They are in the balance", body = Purchase, headers(("location" = String))),
        (status = 200, description = "The same was bought before", body = Purchase, headers(("location" = String))),
        (status = 202, description = "It goes on, or waits for a person, as its `state` says", body = Purchase, headers(("location" = String))),
        (status = 402, description = "They could not be paid; nothing was taken, or it was given back", body = problem::Document, content_type = "application/problem+json"),
        (status = 409, description = "No credits can be bought here", body = problem::Document, content_type = "application/problem+json"),
        (status = 422, description = "Something that was asked for can't be used", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn buy(
    State(api): State<Api>,
    Operator(caller): Operator,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let request: CreditsRequest = problem::json(&body)?;
    let idempotency_key =
        spool::idempotency_key(&headers).map_err(|mistake| Problem::mistakes(vec![mistake]))?;
    let credits = request.credits.ok_or_else(|| Problem::mistake("credits", "say how many, such as 1000"))?;
    let method = request.method.filter(|method| !method.is_empty());
    if method.as_ref().is_some_and(|method| method.len() > LONGEST_METHOD) {
        return Err(Problem::mistake("method", format!("it has more than {LONGEST_METHOD} bytes")));
    }
    let wish = Wish {
        tenant: caller.tenant,
        by: caller.user,
        credits,
        method: method.map(Secret::new),
        idempotency_key,
    };
    let (begun, existed) = buying::begin(&api.app, wish).await?;
    // From here on it goes on by itself: a caller who got an error would come again, and buy twice.
    let purchase = buying::drive(&api.app, &begun.id, PATIENCE).await.unwrap_or_else(|error| {
        warn!(%error, purchase = %begun.id, "purchase not gone on with yet");
        begun
    });
    let status = match purchase.state {
        purchase::State::Completed if existed => StatusCode::OK,
        purchase::State::Completed => StatusCode::CREATED,
        purchase::State::Compensated => {
            let reason = purchase.reason.unwrap_or_default();
            let detail = format!("purchase {} was undone: {reason}", purchase.id);
            return Err(Problem::new(&problem::NOT_PAID, detail));
        }
        _ => StatusCode::ACCEPTED,
    };
    let location = [(LOCATION, format!("/v1/account/purchases/{}", purchase.id))];
    Ok((status, location, Json(Purchase::from(purchase))).into_response())
}

/// What the tenant has bought, newest first
#[utoipa::path(get, path = "/v1/account/purchases", operation_id = "list_purchases", tag = "account", params(Place),
    responses((status = 200, description = "Up to 500 purchases, 50 unless asked otherwise", body = Piece<Purchase>)))]
pub async fn list(
    State(api): State<Api>,
    Known(caller): Known,
    Query(place): Query<Place>,
) -> Result<Json<Piece<Purchase>>, Problem> {
    let (limit, after) = (place.limit(USUAL, MOST)?, place.after("purchases")?);
    let piece = listing::purchases(&api.app, &caller.tenant, after, limit).await?;
    let items = piece.items.into_iter().map(Purchase::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("purchases", &next)) }))
}

/// One purchase
#[utoipa::path(get, path = "/v1/account/purchases/{id}", operation_id = "get_purchase", tag = "account", params(("id" = String, Path)),
    responses((status = 200, description = "As it is now", body = Purchase)))]
pub async fn purchase(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<Purchase>, Problem> {
    let unknown = || Problem::new(&problem::UNKNOWN_PURCHASE, "there is no such purchase");
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(unknown());
    }
    let found = purchases::find(&api.app, &PurchaseId::new(id)).await?.map(|kept| kept.value);
    let found = found.filter(|purchase| purchase.order.tenant == caller.tenant).ok_or_else(unknown)?;
    Ok(Json(found.into()))
}
