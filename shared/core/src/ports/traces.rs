//! Exports spans: to an OTLP collector, to X-Ray, or nowhere.

use async_trait::async_trait;

use crate::trace::Span;

#[async_trait]
pub trait Traces: Send + Sync {
    /// Records a span. It never blocks and never fails: a span that can't be stored is dropped.
    fn record(&self, span: Span);

    /// Sends the recorded spans within a short time; for a process that is about to exit or to be
    /// frozen.
    async fn flush(&self) {}

    /// Whether spans are recorded at all.
    fn is_enabled(&self) -> bool {
        true
    }
}

/// Drops every span.
pub struct NoTraces;

#[async_trait]
impl Traces for NoTraces {
    fn record(&self, _: Span) {}

    fn is_enabled(&self) -> bool {
        false
    }
}
