//! Spans to an OTLP collector, in batches from a thread of their own: no work waits for it.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    ports::traces::Traces,
    settings::Settings,
    trace::{Span, SpanKind, Value},
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

use crate::http::{SetupError, USER_AGENT, tls_config};

/// For one export; short, because a collector usually runs nearby.
pub(crate) const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// For the export before the process ends or is frozen: a collector that hangs must not delay the work.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub struct OtlpTraces {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

impl OtlpTraces {
    /// Exports to OTEL_EXPORTER_OTLP_ENDPOINT; none when that is not set. `program` is the service name
    /// unless OTEL_SERVICE_NAME is set.
    pub fn from_settings(settings: &Settings, program: &str) -> Result<Option<Self>, SetupError> {
        let Some(endpoint) = &settings.traces.endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client()?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_headers(headers(settings))
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| SetupError::Traces(error.to_string()))?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(&resource(settings, program));
        Ok(Some(Self { processor: Arc::new(processor), scope: scope() }))
    }
}

/// The headers that the collector requires.
pub(crate) fn headers(settings: &Settings) -> HashMap<String, String> {
    let headers = settings.traces.headers.iter();
    headers.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

/// What sends: `program`, unless it has another name in the settings.
pub(crate) fn resource(settings: &Settings, program: &str) -> Resource {
    Resource::builder()
        .with_service_name(settings.traces.service.clone().unwrap_or_else(|| program.to_owned()))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("deployment.environment.name", settings.environment.clone()),
        ])
        .build()
}

pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("everypage").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The exporter's thread has no runtime, so its client is a blocking one, which brings its own. Such a
/// client must not be created or dropped on a thread of another runtime.
pub(crate) fn client() -> Result<reqwest::blocking::Client, SetupError> {
    let create = || {
        reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(tls_config(true)?)
            .user_agent(USER_AGENT)
            .timeout(EXPORT_TIMEOUT)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(SetupError::Client)
    };
    std::thread::spawn(create)
        .join()
        .unwrap_or_else(|_| Err(SetupError::Traces("the thread that creates the client panicked".into())))
}

#[async_trait]
impl Traces for OtlpTraces {
    fn record(&self, span: Span) {
        self.processor.on_end(data(span, &self.scope));
    }

    async fn flush(&self) {
        let processor = self.processor.clone();
        let flushed = tokio::task::spawn_blocking(move || processor.force_flush());
        // The exporter logs its errors, and continues in the background after the timeout.
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
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
            // No caller waits for a job, as it would for a span of the kind `SERVER`.
            SpanKind::Job | SpanKind::Internal => trace::SpanKind::Internal,
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
