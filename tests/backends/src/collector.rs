//! A trace collector for OTLP over HTTP that keeps every span.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value},
    trace::v1::Span as OtlpSpan,
};
use prost::Message;
use tokio::net::TcpListener;

/// A received span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty when it has none.
    pub parent: String,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

pub struct Collector {
    address: SocketAddr,
    spans: Spans,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, spans) = (listener.local_addr().unwrap(), Spans::default());
        let router = Router::new().route("/v1/traces", post(receive)).with_state(spans.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, spans }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn spans(&self) -> Vec<Span> {
        self.spans.0.lock().unwrap().clone()
    }
}

async fn receive(State(received): State<Spans>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for batch in request.resource_spans {
        let resource = batch.resource.map(|resource| attributes(resource.attributes)).unwrap_or_default();
        let service = resource.get("service.name").cloned().unwrap_or_default();
        let spans = batch.scope_spans.into_iter().flat_map(|scope| scope.spans);
        received.0.lock().unwrap().extend(spans.map(|span| read(&service, span)));
    }
    StatusCode::OK
}

fn read(service: &str, span: OtlpSpan) -> Span {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    Span {
        service: service.to_owned(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: attributes(span.attributes),
        name: span.name,
    }
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let value = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    pairs.into_iter().map(|pair| (pair.key, value(pair.value))).collect()
}
