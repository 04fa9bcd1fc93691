use std::time::Duration;

use everypage_core::observe::figures;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// The jobs that were submitted in one period.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsBucket {
    /// Start of the period.
    pub from: Timestamp,
    /// All jobs.
    pub jobs: u32,
    /// Jobs that ended with the status `success`.
    pub succeeded: u32,
    /// Jobs that failed.
    pub failed: u32,
    /// Jobs that were rejected or cancelled.
    pub stopped: u32,
    /// Pages of all results.
    pub pages: u64,
    /// Pages with a model's text.
    pub ai_pages: u64,
    /// Pages with their own text where a model's was planned.
    pub fallback_pages: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Median duration of the jobs that ended; absent when none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// 95th percentile of the duration; absent when no job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

impl StatsBucket {
    fn new(from: Timestamp, span: &figures::Span) -> Self {
        let within = |part| span.within(part).map(|time: Duration| time.as_millis() as u64);
        Self {
            from,
            jobs: span.jobs,
            succeeded: span.succeeded,
            failed: span.failed,
            stopped: span.stopped,
            pages: span.pages,
            ai_pages: span.ai_pages,
            fallback_pages: span.fallback_pages,
            cost_micro_usd: span.cost.0,
            p50_ms: within(0.5),
            p95_ms: within(0.95),
        }
    }
}

/// Statistics of a tenant's jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stats {
    /// Length of each bucket in milliseconds.
    pub bucket_ms: u64,
    /// Oldest first.
    pub buckets: Vec<StatsBucket>,
    /// All buckets together.
    pub total: StatsBucket,
    /// False when there are more than 5,000 jobs: the oldest are missing.
    pub complete: bool,
}

impl From<figures::Figures> for Stats {
    fn from(figures: figures::Figures) -> Self {
        let start = |index: usize| {
            let offset = figures.each.saturating_mul(index as u32);
            figures.from.checked_add(offset).unwrap_or(Timestamp::MAX)
        };
        let spans = figures.spans.iter().enumerate();
        Self {
            bucket_ms: figures.each.as_millis() as u64,
            buckets: spans.map(|(at, span)| StatsBucket::new(start(at), span)).collect(),
            total: StatsBucket::new(figures.from, &figures.total),
            complete: figures.complete,
        }
    }
}
