//! Payments by a service that is spoken to over HTTP.

use std::sync::Arc;

use everypage_core::{
    config,
    domain::{ids::TenantId, outcome::MicroUsd, secret::Secret},
    ports::payments::{Charge, PaymentError, Payments},
};
use everypage_providers::HttpPayments;
use everypage_testkit::till::Till;

use crate::canned::Canned;

fn payments(url: &str) -> HttpPayments {
    let settings = config::Settings::read(|name| match name {
        "PAYMENT_URL" => Some(url.to_owned()),
        "PAYMENT_API_KEY" => Some("key of the service".to_owned()),
        "CREDIT_PRICE_USD" => Some("0.05".to_owned()),
        _ => None,
    });
    HttpPayments::of(&settings.unwrap().settings).unwrap()
}

fn charge() -> Charge {
    Charge {
        key: "p:take_payment".into(),
        tenant: TenantId::new("acme"),
        credits: 100,
        amount: MicroUsd(5_070_000),
        method: Some(Secret::new("card of ann")),
    }
}

mod exam {
    use super::*;
    everypage_testkit::payments_exam!(async {
        // It is there for as long as the test's process.
        let till: &'static Till = Box::leak(Box::new(Till::start().await.unwrap()));
        everypage_testkit::suites::payments::Subject::new(
            Arc::new(payments(&till.url())),
            till.payments.clone(),
        )
    });
}

#[tokio::test]
async fn the_service_knows_who_asks_and_under_which_key() {
    let till = Till::start().await.unwrap();
    // As people write it.
    let payments = payments(&format!("{}/", till.url()));
    payments.charge(&charge()).await.unwrap();
    let headers = &till.headers()[0];
    assert_eq!(headers["authorization"], "Bearer key of the service");
    assert_eq!(headers["idempotency-key"], "p:take_payment");
    assert_eq!(till.payments.income(), MicroUsd(5_070_000));
}

#[tokio::test]
async fn whatever_is_not_a_clear_answer_is_no_answer() {
    for (head, body, declined) in [
        ("HTTP/1.1 200 OK", "{}", false),
        ("HTTP/1.1 200 OK", "not json", false),
        ("HTTP/1.1 301 Moved", "", false),
        ("HTTP/1.1 401 Unauthorized", "", false),
        ("HTTP/1.1 409 Conflict", "", false),
        ("HTTP/1.1 429 Too Many Requests", "", false),
        ("HTTP/1.1 500 Internal Server Error", "{\"detail\":\"card of ann\"}", false),
        ("HTTP/1.1 402 Payment Required", "{\"message\":\"no money left\"}", true),
        ("HTTP/1.1 402 Payment Required", "{\"detail\":\"card of ann: no\\u001b[2J\"}", true),
        ("HTTP/1.1 422 Unprocessable Entity", "<html>", true),
    ] {
        let service = Canned::start(head, body).await;
        let error = payments(&service.url).charge(&charge()).await.unwrap_err();
        assert_eq!(matches!(error, PaymentError::Declined(_)), declined, "{head}: {error:?}");
        assert!(!error.to_string().contains("card of ann"), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    let error = payments("http://127.0.0.1:9").charge(&charge()).await.unwrap_err();
    assert!(matches!(&error, PaymentError::Unavailable(why) if why.contains("not reached")), "{error:?}");
}

#[tokio::test]
async fn without_a_service_nothing_is_taken() {
    let settings = config::Settings::read(|_| None).unwrap().settings;
    let error = HttpPayments::of(&settings).unwrap().charge(&charge()).await.unwrap_err();
    assert!(matches!(&error, PaymentError::Unavailable(why) if why.contains("PAYMENT_URL")), "{error:?}");
}
