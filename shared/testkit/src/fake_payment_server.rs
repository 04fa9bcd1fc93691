//! A payment service over HTTP that follows [`everypage_core::ports::payments`], for tests of adapters
//! and programs that call one.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everypage_core::{
    ids::TenantId,
    money::MicroUsd,
    ports::payments::{Charge, PaymentError, Payments, Refund},
    secret::Secret,
};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinSet},
};

use crate::memory::MemoryPayments;

/// A running payment server. Dropping it closes its port.
pub struct FakePaymentServer {
    pub payments: Arc<MemoryPayments>,
    address: SocketAddr,
    headers: Arc<Mutex<Vec<hyper::HeaderMap>>>,
    server: AbortHandle,
}

impl FakePaymentServer {
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (payments, headers) = (Arc::new(MemoryPayments::default()), Arc::default());
        let server = tokio::spawn(serve(listener, payments.clone(), Arc::clone(&headers))).abort_handle();
        Ok(Self { payments, address, headers, server })
    }

    /// The value for `PAYMENT_URL`.
    pub fn url(&self) -> String {
        format!("http://{}/pay", self.address)
    }

    /// The headers of every request so far.
    pub fn headers(&self) -> Vec<hyper::HeaderMap> {
        held(&self.headers).clone()
    }
}

impl Drop for FakePaymentServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    listener: TcpListener,
    payments: Arc<MemoryPayments>,
    headers: Arc<Mutex<Vec<hyper::HeaderMap>>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (payments, headers) = (payments.clone(), headers.clone());
        connections.spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                held(&headers).push(request.headers().clone());
                let payments = payments.clone();
                async move { Ok::<_, Infallible>(answer(&payments, request).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(payments: &MemoryPayments, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (tenant, amount) = (TenantId::new(text("tenant")), amount(&body["amount"]));
    let done = match path.as_str() {
        "/pay/charges" => {
            let method = body["method"].as_str().map(Secret::new);
            let credits = body["credits"].as_u64().unwrap_or_default();
            let charge = Charge { key: text("key"), tenant, credits, amount, method };
            payments.charge(&charge).await.map(|id| json!({ "id": id }))
        }
        "/pay/refunds" => {
            let refund = Refund { key: text("key"), charge: text("charge"), tenant, amount };
            payments.refund(&refund).await.map(|()| json!({}))
        }
        _ => Err(PaymentError::Declined(format!("unknown path {path}"))),
    };
    let (status, body) = match done {
        Ok(body) => (StatusCode::CREATED, body),
        Err(PaymentError::Declined(reason)) => (StatusCode::PAYMENT_REQUIRED, json!({ "detail": reason })),
        Err(PaymentError::Unavailable(_) | PaymentError::NotReached(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({}))
        }
    };
    let mut response = Response::new(Full::new(body.to_string().into()));
    *response.status_mut() = status;
    response
}

/// Parses `{"currency": "USD", "value": "12.50"}`; zero for any other form.
fn amount(value: &Value) -> MicroUsd {
    let written = value["value"].as_str().and_then(|text| text.split_once('.'));
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    match written {
        Some((dollars, cents)) if value["currency"] == "USD" && cents.len() == 2 => {
            MicroUsd(number(dollars) * 1_000_000 + number(cents) * 10_000)
        }
        _ => MicroUsd(0),
    }
}
