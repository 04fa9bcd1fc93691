//! Payments over HTTP, by a service of the operator's choice that stands in front of whoever moves the
//! money.
//!
//! ```text
//! POST {PAYMENT_URL}/charges   {"key", "tenant", "credits", "amount": {"currency", "value"}, "method"?}
//!                              2xx {"id"} · 4xx: declined, nothing was taken · else: nobody knows
//! POST {PAYMENT_URL}/refunds   {"key", "charge", "tenant", "amount"}
//!                              2xx: given back, and a charge of that key is declined from now on
//! ```
//!
//! Both carry `Idempotency-Key`, the body's `key`, and are asked again under the same one.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::{
    config,
    domain::{outcome::MicroUsd, secret::Secret},
    ports::payments::{Charge, PaymentError, Payments, Refund},
};
use reqwest::{Client, StatusCode, redirect, retry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{SettingsError, tls, transport::describe};

/// For one call: shorter than the time after which somebody else makes it again.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Of what a service answers, so much is read; of what it says when it declines, and of a payment's id,
/// so much is told on.
const MOST_READ: usize = 64 * 1024;
const MOST_SAID: usize = 200;

pub struct HttpPayments {
    client: Client,
    /// None where there is no service to ask.
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
    /// By the service that the settings name, if any.
    pub fn of(settings: &config::Settings) -> Result<Self, SettingsError> {
        let service = settings.purchasing.as_ref().map(|purchasing| Service {
            url: purchasing.url.trim_end_matches('/').to_owned(),
            api_key: purchasing.api_key.clone(),
        });
        let client = Client::builder()
            .tls_backend_preconfigured(tls::client_config(service.is_some()).map_err(SettingsError::Tls)?)
            .user_agent(concat!("everypage/", env!("CARGO_PKG_VERSION")))
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .build()
            .map_err(SettingsError::Client)?;
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
        let unavailable = |error| {
            PaymentError::Unavailable(format!("the payment service was not reached: {}", describe(&error)))
        };
        let mut answer = request.body(body.to_string()).send().await.map_err(unavailable)?;
        let status = answer.status();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unavailable)? {
            text.extend_from_slice(&chunk[..chunk.len().min(MOST_READ - text.len())]);
            if text.len() == MOST_READ {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        if status.is_success() {
            return Ok(text);
        }
        Err(if is_no(status) {
            PaymentError::Declined(said(status, &text, body["method"].as_str()))
        } else {
            PaymentError::Unavailable(format!("the payment service answered {status}"))
        })
    }
}

/// Does this answer say that nothing was done, and that asking again is in vain?
fn is_no(status: StatusCode) -> bool {
    let perhaps_later = [
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !perhaps_later.contains(&status)
}

/// The service's own words, where it has some for people. They are kept and shown: without how it was to
/// be paid, and without what a terminal would take for a command.
fn said(status: StatusCode, text: &str, method: Option<&str>) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let words = ["detail", "message", "title"].into_iter().find_map(|name| body[name].as_str());
    match words {
        Some(words) => {
            let words = method.map_or_else(|| words.to_owned(), |method| words.replace(method, "…"));
            words.chars().filter(|c| !c.is_control()).take(MOST_SAID).collect()
        }
        None => format!("the payment service answered {status}"),
    }
}

/// In decimal, as money is written: no service has to know what a millionth is.
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
        // Taken, and asked again under the same key it will say so properly.
        let charged: Charged = serde_json::from_str(&answer)
            .map_err(|_| PaymentError::Unavailable("the payment service's answer has no \"id\"".into()))?;
        Ok(charged.id.chars().filter(|c| !c.is_control()).take(MOST_SAID).collect())
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
