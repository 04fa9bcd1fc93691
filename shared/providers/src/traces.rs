//! Spans to an OTLP collector, in batches, by a thread of their own: nothing waits for it.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    config,
    domain::trace::{Span, SpanKind, Value},
    ports::traces::Traces,
};
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{self, SpanContext, Status, TraceState},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor},
};
use reqwest::redirect;

use crate::{SettingsError, tls};

/// For one export; a collector is near.
const EXPORT: Duration = Duration::from_secs(5);
/// Longest that a process waits for what it has not told yet, before it ends or falls asleep: a
/// collector that hangs must not cost the work its time.
const FLUSH: Duration = Duration::from_secs(1);

pub struct OtlpTraces {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

impl OtlpTraces {
    /// To the collector that the settings name, or nobody; as `program`, if they do not say otherwise.
    pub fn of(settings: &config::Settings, program: &str) -> Result<Option<Self>, SettingsError> {
        let Some(endpoint) = &settings.traces.endpoint else { return Ok(None) };
        let headers = settings.traces.headers.iter();
        let headers: HashMap<_, _> =
            headers.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client()?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_headers(headers)
            .with_timeout(EXPORT)
            .build()
            .map_err(|error| SettingsError::Traces(error.to_string()))?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        let resource = Resource::builder()
            .with_service_name(settings.traces.service.clone().unwrap_or_else(|| program.to_owned()))
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("deployment.environment.name", settings.environment.clone()),
            ])
            .build();
        processor.set_resource(&resource);
        let scope =
            InstrumentationScope::builder("everypage").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Some(Self { processor: Arc::new(processor), scope }))
    }
}

/// The exporter's thread has no runtime, so its client brings one. It can't be made where another
/// runtime runs, nor dropped there.
fn client() -> Result<reqwest::blocking::Client, SettingsError> {
    let make = || {
        reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(tls::client_config(true).map_err(SettingsError::Tls)?)
            .user_agent(concat!("everypage/", env!("CARGO_PKG_VERSION")))
            .timeout(EXPORT)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(SettingsError::Client)
    };
    std::thread::spawn(make)
        .join()
        .unwrap_or_else(|_| Err(SettingsError::Traces("the thread that makes its client died".into())))
}

#[async_trait]
impl Traces for OtlpTraces {
    fn record(&self, span: Span) {
        self.processor.on_end(data(span, &self.scope));
    }

    async fn flush(&self) {
        let processor = self.processor.clone();
        let told = tokio::task::spawn_blocking(move || processor.force_flush());
        // What goes wrong is logged by the exporter, which goes on by itself.
        let _ = tokio::time::timeout(FLUSH, told).await;
    }
}

impl fmt::Debug for OtlpTraces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OtlpTraces")
    }
}

fn data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let context = SpanContext::new(
        TraceId::from(span.context.trace),
        SpanId::from(span.context.span),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let attribute = |(name, value)| match value {
        Value::Text(text) => KeyValue::new(name, text),
        Value::Number(number) => KeyValue::new(name, number),
    };
    let mut attributes: Vec<KeyValue> = span.attributes.into_iter().map(attribute).collect();
    let status = match span.error {
        None => Status::Unset,
        Some(why) => {
            attributes.push(KeyValue::new("error.type", why.clone()));
            Status::error(why)
        }
    };
    SpanData {
        span_context: context,
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from),
        parent_span_is_remote: false,
        span_kind: match span.kind {
            SpanKind::Internal => trace::SpanKind::Internal,
            SpanKind::Consumer => trace::SpanKind::Consumer,
            SpanKind::Client => trace::SpanKind::Client,
        },
        name: span.name.into(),
        start_time: span.start.into(),
        end_time: span.end.into(),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: scope.clone(),
    }
}
