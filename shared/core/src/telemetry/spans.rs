//! Spans: how they are opened, and how they nest.
//!
//! ```text
//! job ─┬─ submit
//!      ├─ inspect, read_text, render      per range of pages
//!      ├─ plan
//!      ├─ page ──── call, call, …         per delivery of its message, per model call
//!      ├─ finalize
//!      └─ webhook                         per attempt to deliver it
//! ```
//!
//! All spans of a job are in one trace: that of the caller, if the request had a `traceparent`, or a
//! new one. The job's own span is recorded at its end, by the process that stores the end; its id is
//! known from the start, so that the other spans can name it as their parent. Attributes are names
//! and numbers, never a document's text, a prompt, a password or a key.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    ports::{clock::Clock, ids::Ids, traces::Traces},
    trace::{Span, SpanKind, TraceContext, Value},
};

/// Exports spans, with the clock and the ids that they use.
#[derive(Clone)]
pub struct Tracer {
    pub traces: Arc<dyn Traces>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// An error with a stable name, which is recorded in the span of the failed work.
pub trait ErrorCode {
    fn code(&self) -> &'static str;
}

/// A span that ends when it is dropped, however the work ends.
#[must_use = "a span ends when it is dropped"]
pub struct Open<'a> {
    tracer: &'a Tracer,
    context: TraceContext,
    span: Option<Span>,
}

impl<'a> Open<'a> {
    pub fn new(tracer: &'a Tracer, parent: TraceContext, name: &'static str, kind: SpanKind) -> Self {
        if !tracer.traces.is_enabled() || !parent.sampled {
            return Self { tracer, context: parent, span: None };
        }
        let context = TraceContext { span: tracer.ids.random_below(u64::MAX - 1) + 1, ..parent };
        let now = tracer.clock.now();
        let span = Span {
            context,
            parent: Some(parent.span),
            name,
            kind,
            start: now,
            end: now,
            attributes: vec![],
            error: None,
        };
        Self { tracer, context, span: Some(span) }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.set_attribute(name, value);
        self
    }

    pub fn set_attribute(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// Sets an earlier start, for work that started before the span was opened.
    pub fn started_at(&mut self, start: Timestamp) {
        if let Some(span) = &mut self.span {
            span.start = start;
        }
    }

    /// The context of this span: the parent of spans that it causes.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Runs the work of a step, and records the error if it fails.
    pub async fn run<T, E: ErrorCode>(mut self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let result = work.await;
        if let Err(error) = &result {
            self.failed(error.code());
        }
        result
    }

    /// Marks the span as failed; `code` is the stable name of the reason.
    pub fn failed(&mut self, code: &str) {
        if let Some(span) = &mut self.span {
            span.error = Some(code.to_owned());
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            // A span must not end before it starts, even if the clock was set back.
            span.end = self.tracer.clock.now().max(span.start);
            self.tracer.traces.record(span);
        }
    }
}
