//! What is traced: every span defined once, and the only places that name one.
//!
//! ```text
//! job ─┬─ submit
//!      ├─ inspect, read_text, render      per range of pages
//!      ├─ plan
//!      ├─ page ──── call, call, …         per delivery of its message, per question to a model
//!      ├─ finalize
//!      └─ webhook                         per attempt
//! ```
//!
//! All of a job's spans are in one trace: that of whoever submitted it, where a `traceparent` came
//! along, or else one of its own. The job's own span is told at its end, by whoever stores that end;
//! its id is known from the start, so that the others can name it as their parent. Attributes are
//! names and figures: no document's text, prompt, password or key is ever one.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    ports::{clock::Clock, ids::Ids, traces::Traces},
    trace::{Span, SpanKind, TraceContext, Value},
};

/// Where spans go, and what they take their times and ids from.
#[derive(Clone)]
pub struct Tracer {
    pub traces: Arc<dyn Traces>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// An error with a stable name, for the span of the work that it ended.
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
        if !tracer.traces.is_on() || !parent.sampled {
            return Self { tracer, context: parent, span: None };
        }
        let context = TraceContext { span: tracer.ids.roll(u64::MAX - 1) + 1, ..parent };
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
        self.note(name, value);
        self
    }

    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// The work began before the span was opened.
    pub fn started_at(&mut self, start: Timestamp) {
        if let Some(span) = &mut self.span {
            span.start = start;
        }
    }

    /// Where this span is: what it causes has this for a parent.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Does the work of a step, and notes why it failed if it did.
    pub async fn around<T, E: ErrorCode>(mut self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let done = work.await;
        if let Err(error) = &done {
            self.failed(error.code());
        }
        done
    }

    /// It did not do what it was to do; `why` is a name that stays the same.
    pub fn failed(&mut self, why: &str) {
        if let Some(span) = &mut self.span {
            span.error = Some(why.to_owned());
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            // A clock that was set back must not make time run backwards.
            span.end = self.tracer.clock.now().max(span.start);
            self.tracer.traces.record(span);
        }
    }
}
