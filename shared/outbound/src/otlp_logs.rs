//! Log records to an OTLP collector, in addition to the lines of the log: in batches from a thread of their own, so
//! that no work waits for it.

use std::{fmt, sync::Arc};

use everypage_core::{
    safe_text::safe_plain,
    settings::{LogExport, Settings},
};
use opentelemetry::{
    SpanId, TraceFlags, TraceId,
    logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity},
};
use opentelemetry_otlp::{LogExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::logs::{BatchLogProcessor, SdkLogger, SdkLoggerProvider};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use crate::{
    http::SetupError,
    otlp::{EXPORT_TIMEOUT, FLUSH_TIMEOUT, client, headers, resource, scope},
};

/// Only this program's own lines: those of the HTTP client and of the exporter would be about exporting lines.
const TARGET: &str = "everypage";

/// A layer of the log. Clones share the exporter.
#[derive(Clone)]
pub struct OtlpLogs {
    provider: SdkLoggerProvider,
    logger: Arc<SdkLogger>,
}

impl OtlpLogs {
    /// Exports to OTEL_EXPORTER_OTLP_ENDPOINT if OTEL_LOGS_EXPORTER says so. `program` is the service name unless
    /// OTEL_SERVICE_NAME is set.
    pub fn from_settings(settings: &Settings, program: &str) -> Result<Option<Self>, SetupError> {
        let (LogExport::Otlp, Some(endpoint)) = (settings.log.export, &settings.traces.endpoint) else {
            return Ok(None);
        };
        let exporter = LogExporter::builder()
            .with_http()
            .with_http_client(client()?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/logs", endpoint.trim_end_matches('/')))
            .with_headers(headers(settings))
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| SetupError::Traces(error.to_string()))?;
        let provider = SdkLoggerProvider::builder()
            .with_log_processor(BatchLogProcessor::builder(exporter).build())
            .with_resource(resource(settings, program))
            .build();
        let logger = Arc::new(provider.logger_with_scope(scope()));
        Ok(Some(Self { provider, logger }))
    }

    /// Sends what is waiting, for a moment at most: a collector that hangs must not delay the end.
    pub async fn flush(&self) {
        let provider = self.provider.clone();
        let flushed = tokio::task::spawn_blocking(move || provider.force_flush());
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }
}

impl fmt::Debug for OtlpLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OtlpLogs")
    }
}

/// The fields of a span or of an event, as the lines of the log have them.
#[derive(Clone, Default)]
struct Fields {
    message: Option<String>,
    named: Vec<(&'static str, AnyValue)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<AnyValue>) {
        self.named.retain(|(name, _)| *name != field.name());
        self.named.push((field.name(), value.into()));
    }

    fn text(&self, wanted: &str) -> Option<&str> {
        self.named.iter().find_map(|(name, value)| match value {
            AnyValue::String(text) if *name == wanted => Some(text.as_str()),
            _ => None,
        })
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = safe_plain(value).into_owned();
        match field.name() {
            "message" => self.message = Some(value),
            _ => self.add(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for OtlpLogs {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        if !metadata.target().starts_with(TARGET) {
            return;
        }
        let mut fields = Fields::default();
        // From the outermost span in: the innermost value of a name stays.
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                for (name, value) in &of_span.named {
                    fields.named.retain(|(known, _)| known != name);
                    fields.named.push((*name, value.clone()));
                }
            }
        }
        event.record(&mut fields);
        let mut record = self.logger.create_log_record();
        let (severity, name) = severity(*metadata.level());
        record.set_severity_number(severity);
        record.set_severity_text(name);
        record.set_target(metadata.target().to_owned());
        if let Some(trace) = fields.text("trace").and_then(|id| TraceId::from_hex(id).ok()) {
            record.set_trace_context(trace, SpanId::INVALID, Some(TraceFlags::SAMPLED));
        }
        record.set_body(fields.message.unwrap_or_default().into());
        record.add_attributes(fields.named);
        self.logger.emit(record);
    }
}

fn severity(level: Level) -> (Severity, &'static str) {
    match level {
        Level::ERROR => (Severity::Error, "ERROR"),
        Level::WARN => (Severity::Warn, "WARN"),
        Level::INFO => (Severity::Info, "INFO"),
        Level::DEBUG => (Severity::Debug, "DEBUG"),
        _ => (Severity::Trace, "TRACE"),
    }
}
