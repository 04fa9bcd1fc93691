//! The tenant's credits: balance, ledger and purchases.

use std::time::Duration;

use axum::http::StatusCode;
use everypage_core::{
    billing::{
        account::{AccountEvent, Cause},
        accounts,
    },
    sagas,
};
use everypage_testkit::{memory::PaymentBehaviour, pdf::FakeDocument, vision::Reply};
use serde_json::json;

use crate::support::{Answer, Service, operator, other_tenant, request, user, with_header};

const WITH_PAYMENTS: [(&str, &str); 3] =
    [("CREDITS", "prepaid"), ("PAYMENT_URL", "http://pay.example"), ("CREDIT_PRICE_USD", "0.05")];

async fn buy(service: &Service, credits: u64, key: Option<&str>) -> Answer {
    let body = json!({ "credits": credits, "method": "card of ann" }).to_string();
    let mut request = request("POST", "/v1/account/credits", "application/json", body.into_bytes());
    if let Some(key) = key {
        request = with_header(request, "idempotency-key", key);
    }
    service.send(Some(operator()), request).await
}

#[tokio::test(start_paused = true)]
async fn bought_and_charged_credits_are_in_the_ledger() {
    let service = Service::new(&WITH_PAYMENTS);
    let account = json!({
        "tenant": "acme", "unlimited": false, "price_usd": 0.05,
        "balance": 0, "reserved": 0, "available": 0, "pending": 0, "earned": 0, "spent": 0, "transactions": 0,
    });
    assert_eq!(service.get(user(), "/v1/account").await.json(), account);
    let bought = buy(&service, 10, None).await;
    assert_eq!((bought.status, bought.text("/state")), (StatusCode::CREATED, "COMPLETED".into()));
    assert_eq!(bought.at("/price_micro_usd"), 500_000);
    assert!(!bought.json().to_string().contains("card of ann"));
    let place = bought.header("location");
    assert_eq!(service.get(user(), place).await.text("/id"), bought.text("/id"));
    service.get(other_tenant(), place).await.is_problem(404, "unknown_purchase");

    service.finished(&FakeDocument::graphics(4)).await;
    let account = service.get(user(), "/v1/account").await;
    assert_eq!((account.at("/balance"), account.at("/available")), (json!(6), json!(6)));
    let ledger = service.get(user(), "/v1/account/ledger?limit=1").await;
    assert_eq!((ledger.at("/items/0/amount"), ledger.text("/items/0/cause/kind")), (json!(-4), "job".into()));
    let next = ledger.text("/next");
    let ledger = service.get(user(), &format!("/v1/account/ledger?limit=1&cursor={next}")).await;
    assert_eq!(ledger.at("/items/0/amount"), 10);
    assert_eq!(service.get(other_tenant(), "/v1/account/ledger").await.items().len(), 0);
    assert_eq!(service.get(user(), "/v1/account/purchases").await.items().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_without_credits_is_rejected_and_a_heal_is_refused() {
    let service = Service::new(&WITH_PAYMENTS);
    let id = service.finished(&FakeDocument::graphics(4)).await;
    let job = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!(job.text("/status"), "rejected");
    assert!(job.text("/error/reason").contains("4 are needed and 0 are available"), "{job:?}");

    buy(&service, 1, None).await;
    service.harness.vision.set_behaviour(|_, _| Reply::down());
    let id = service.finished(&FakeDocument::graphics(1)).await;
    let cause = Cause::Operator { by: "ann".into(), note: "spent elsewhere".into() };
    let spent = AccountEvent::Deducted { credits: 1, cause };
    accounts::change(&service.process.app.store, &user().tenant, "ann", &spent).await.unwrap();
    let refused = service.post(user(), &format!("/v1/jobs/{id}/heal"), "").await;
    refused.is_problem(402, "not_enough_credits").says("1 are needed and 0 are available");
}

#[tokio::test(start_paused = true)]
async fn the_same_key_buys_once_and_another_amount_is_refused() {
    let service = Service::new(&WITH_PAYMENTS);
    let first = buy(&service, 10, Some("order 7")).await;
    let second = buy(&service, 10, Some("order 7")).await;
    assert_eq!((second.status, second.text("/id")), (StatusCode::OK, first.text("/id")));
    buy(&service, 11, Some("order 7")).await.is_problem(422, "idempotency_key_reused");
    assert_eq!(service.get(user(), "/v1/account").await.at("/balance"), 10);
    let bad = buy(&service, 11, Some(&"k".repeat(300))).await;
    assert_eq!(bad.text("/errors/0/name"), "Idempotency-Key");
}

#[tokio::test(start_paused = true)]
async fn a_failed_payment_is_reported_and_a_slow_one_continues() {
    let service = Service::new(&WITH_PAYMENTS);
    service.harness.payments.script_charges([PaymentBehaviour::Declines]);
    buy(&service, 10, None).await.is_problem(402, "not_paid").says("the card was declined");
    // The request does not wait until the payment service is reachable again.
    service.harness.payments.script_charges([PaymentBehaviour::Unavailable; 3]);
    let later = buy(&service, 10, None).await;
    assert_eq!((later.status, later.text("/state")), (StatusCode::ACCEPTED, "RUNNING".into()));
    assert_eq!(service.get(user(), "/v1/account").await.at("/pending"), 10);
    sagas::run::run_for(&service.process.app.billing, Duration::from_secs(60)).await.unwrap();
    assert_eq!(service.get(user(), later.header("location")).await.text("/state"), "COMPLETED");
    assert_eq!(service.get(user(), "/v1/account").await.at("/balance"), 10);
}

#[tokio::test(start_paused = true)]
async fn buying_needs_an_operator_an_amount_and_a_payment_service() {
    let service = Service::new(&WITH_PAYMENTS);
    service.post(user(), "/v1/account/credits", "{\"credits\": 1}").await.is_problem(403, "forbidden");
    for body in ["", "{}", "{\"credits\": 0}", "{\"credits\": 18446744073709551615}"] {
        let refused = service.post(operator(), "/v1/account/credits", body).await;
        refused.is_problem(422, "bad_options");
        assert_eq!(refused.text("/errors/0/name"), "credits", "{body}");
    }
    let body = json!({ "credits": 1, "method": "x".repeat(501) }).to_string();
    let refused = service.post(operator(), "/v1/account/credits", &body).await;
    assert_eq!(refused.text("/errors/0/name"), "method");

    let service = Service::new(&[]);
    assert_eq!(service.get(user(), "/v1/account").await.at("/unlimited"), true);
    let refused = service.post(operator(), "/v1/account/credits", "{\"credits\": 1}").await;
    refused.is_problem(409, "purchases_not_available").says("PAYMENT_URL");
}
