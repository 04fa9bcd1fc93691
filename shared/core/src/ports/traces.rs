//! Where spans go: an OTLP collector, X-Ray, or nowhere.

use async_trait::async_trait;

use crate::trace::Span;

#[async_trait]
pub trait Traces: Send + Sync {
    /// Never waits and never fails: what can't be taken is lost, and the work goes on.
    fn record(&self, span: Span);

    /// Tells what was recorded and not told yet, within a short time; for a process that ends, or is
    /// put to sleep.
    async fn flush(&self) {}

    /// Is there anybody to record for?
    fn is_on(&self) -> bool {
        true
    }
}

/// Nobody traces.
pub struct NoTraces;

#[async_trait]
impl Traces for NoTraces {
    fn record(&self, _: Span) {}

    fn is_on(&self) -> bool {
        false
    }
}
