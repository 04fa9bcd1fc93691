//! Payments over HTTP, through a service of the operator's choice in front of a payment processor.
//!
//! ```text
//! POST {PAYMENT_URL}/charges   {"key", "tenant", "credits", "amount": {"currency", "value"}, "method"?}
//!                              2xx {"id"} · 4xx: declined, nothing was charged · else: unknown
//! POST {PAYMENT_URL}/refunds   {"key", "charge", "tenant", "amount"}
//!                              2xx: refunded; later charges with that key are declined
//! ```
//!
//! Both carry the body's `key` as `Idempotency-Key`, and retries use the same key.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::{
    money::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments, Refund},
    secret::Secret,
    settings::Settings,
};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{self, SetupError, describe};

/// For one call: shorter than the time after which another process retries it.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longer responses are cut off.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Longer payment ids and reasons for a decline are cut off.
const MAX_TEXT_CHARS: usize = 200;

pub struct HttpPayments {
    client: Client,
    /// None when PAYMENT_URL is not set.
    service: Option<Service>,
}

struct Service {
    url: String,
    api_key: Option<Secret>,
}

#[derive(Deserialize)]
struct Charged {
    id: String,
}

impl HttpPayments {
    /// Pays through the service at PAYMENT_URL; without one, every call fails.
    pub fn from_settings(settings: &Settings) -> Result<Self, SetupError> {
        let service = settings.purchasing.as_ref().map(|purchasing| Service {
            url: purchasing.url.trim_end_matches('/').to_owned(),
            api_key: purchasing.api_key.clone(),
        });
        let client = http::client(service.is_some())?.timeout(TIMEOUT).build().map_err(SetupError::Client)?;
        Ok(Self { client, service })
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> Result<String, PaymentError> {
        let Some(service) = &self.service else {
            return Err(PaymentError::Unavailable("no payment service is set (PAYMENT_URL)".into()));
        };
        let mut request = self.client.post(format!("{}/{path}", service.url));
        request = request.header("idempotency-key", key).header("content-type", "application/json");
        if let Some(key) = &service.api_key {
            request = request.bearer_auth(key.expose());
        }
        let unavailable = |error: reqwest::Error| {
            let reason = format!("the payment service can't be reached: {}", describe(&error));
            // Without a connection no byte of the request was sent.
            if error.is_connect() {
                PaymentError::NotReached(reason)
            } else {
                PaymentError::Unavailable(reason)
            }
        };
        let mut answer = request.body(body.to_string()).send().await.map_err(unavailable)?;
        let status = answer.status();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unavailable)? {
            text.extend_from_slice(&chunk[..chunk.len().min(MAX_RESPONSE_BYTES - text.len())]);
            if text.len() == MAX_RESPONSE_BYTES {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        if status.is_success() {
            return Ok(text);
        }
        Err(if is_declined(status) {
            PaymentError::Declined(decline_reason(status, &text, body["method"].as_str()))
        } else {
            PaymentError::Unavailable(format!("the payment service answered {status}"))
        })
    }
}

/// Whether this status means that nothing was charged and that a retry ends the same way.
fn is_declined(status: StatusCode) -> bool {
    let worth_a_retry = [
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !worth_a_retry.contains(&status)
}

/// The message that the service gives for people, if any. It is stored and shown, so the payment method
/// and control characters are removed from it.
fn decline_reason(status: StatusCode, text: &str, method: Option<&str>) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let message = ["detail", "message", "title"].into_iter().find_map(|name| body[name].as_str());
    match message {
        Some(message) => {
            let message = method.map_or_else(|| message.to_owned(), |method| message.replace(method, "…"));
            printable(&message)
        }
        None => format!("the payment service answered {status}"),
    }
}

/// The start of a text, without what a terminal would interpret.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// In decimal, so that no service has to know about millionths.
fn dollars(amount: MicroUsd) -> Value {
    json!({ "currency": "USD", "value": format!("{}.{:02}", amount.0 / 1_000_000, amount.0 / 10_000 % 100) })
}

#[async_trait]
impl Payments for HttpPayments {
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError> {
        let mut body = json!({
            "key": charge.key,
            "tenant": charge.tenant,
            "credits": charge.credits,
            "amount": dollars(charge.amount),
        });
        if let Some(method) = &charge.method {
            body["method"] = json!(method.expose());
        }
        let answer = self.post("charges", &charge.key, &body).await?;
        // It was charged; a retry with the same key gets the id.
        let charged: Charged = serde_json::from_str(&answer).map_err(|_| {
            PaymentError::Unavailable("the response of the payment service has no \"id\"".into())
        })?;
        Ok(printable(&charged.id))
    }

    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError> {
        let body = json!({
            "key": refund.key,
            "charge": refund.charge,
            "tenant": refund.tenant,
            "amount": dollars(refund.amount),
        });
        self.post("refunds", &refund.key, &body).await.map(drop)
    }
}
