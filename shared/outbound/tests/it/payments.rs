//! Payments through a service on loopback.

use std::sync::Arc;

use everypage_core::{
    ids::TenantId,
    money::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments},
    secret::Secret,
    settings::Settings,
};
use everypage_outbound::HttpPayments;
use everypage_testkit::{canned_server::CannedServer, fake_payment_server::FakePaymentServer};

fn payments(url: &str) -> HttpPayments {
    let settings = Settings::read(|name| match name {
        "PAYMENT_URL" => Some(url.to_owned()),
        "PAYMENT_API_KEY" => Some("service-key".to_owned()),
        "CREDIT_PRICE_USD" => Some("0.05".to_owned()),
        _ => None,
    });
    HttpPayments::from_settings(&settings.unwrap().settings).unwrap()
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

mod conformance {
    use super::*;
    everypage_testkit::payments_conformance!(async {
        // Leaked, so that the server runs as long as the test's process.
        let payment_server: &'static FakePaymentServer =
            Box::leak(Box::new(FakePaymentServer::start().await.unwrap()));
        everypage_testkit::conformance::payments::Subject::new(
            Arc::new(payments(&payment_server.url())),
            payment_server.payments.clone(),
        )
    });
}

#[tokio::test]
async fn requests_carry_the_api_key_and_the_idempotency_key() {
    let payment_server = FakePaymentServer::start().await.unwrap();
    // With a trailing slash, as it is often written.
    let payments = payments(&format!("{}/", payment_server.url()));
    payments.charge(&charge()).await.unwrap();
    let headers = &payment_server.headers()[0];
    assert_eq!(headers["authorization"], "Bearer service-key");
    assert_eq!(headers["idempotency-key"], "p:take_payment");
    assert_eq!(payment_server.payments.income(), MicroUsd(5_070_000));
}

#[tokio::test]
async fn only_a_clear_rejection_counts_as_declined() {
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
        let service = CannedServer::start(head, body).await;
        let error = payments(&service.url).charge(&charge()).await.unwrap_err();
        assert_eq!(matches!(error, PaymentError::Declined(_)), declined, "{head}: {error:?}");
        assert!(!error.to_string().contains("card of ann"), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    let error = payments("http://127.0.0.1:9").charge(&charge()).await.unwrap_err();
    assert!(matches!(&error, PaymentError::NotReached(why) if why.contains("can't be reached")), "{error:?}");
}

#[tokio::test]
async fn without_a_service_no_charge_succeeds() {
    let settings = Settings::read(|_| None).unwrap().settings;
    let error = HttpPayments::from_settings(&settings).unwrap().charge(&charge()).await.unwrap_err();
    assert!(matches!(&error, PaymentError::Unavailable(why) if why.contains("PAYMENT_URL")), "{error:?}");
}
