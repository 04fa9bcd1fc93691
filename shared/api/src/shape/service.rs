use std::time::Duration;

use everypage_core::usecases::figures;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Who is calling, and what this service offers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Me {
    pub tenant: String,
    pub user: String,
    /// `user` or `operator`.
    #[schema(example = "operator")]
    pub role: String,
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Name of this installation.
    pub environment: String,
    pub max_file_bytes: u64,
    pub max_pages: u32,
    /// Large documents may be uploaded past the API.
    pub uploads: bool,
    /// Events come as they happen (`text/event-stream`).
    pub streams: bool,
    /// Providers that can be asked; none means that every page keeps MuPDF's text.
    pub engines: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Lane {
    #[schema(example = "normal")]
    pub priority: String,
    /// Pages that wait or are being worked on.
    pub waiting: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct InFlight {
    #[schema(example = "openai:gpt-5.4")]
    pub target: String,
    /// Calls that are out now.
    pub in_flight: usize,
    /// As many may be.
    pub most: usize,
}

/// What waits and what is under way.
#[derive(Debug, Serialize, ToSchema)]
pub struct Load {
    pub lanes: Vec<Lane>,
    pub models: Vec<InFlight>,
    /// Letters of the caller's tenant that wait for a person; counted up to 1,000.
    pub dead_letters: usize,
}

/// Jobs that came in during a span of time.
#[derive(Debug, Serialize, ToSchema)]
pub struct Span {
    pub from: Timestamp,
    pub jobs: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Rejected or cancelled.
    pub stopped: u32,
    pub pages: u64,
    /// Pages with an AI's text.
    pub ai_pages: u64,
    /// Pages that kept MuPDF's text where an AI's was planned.
    pub fallback_pages: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Half of the jobs that have ended took at most so long; absent when none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

impl Span {
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

/// Figures of a tenant's jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stats {
    /// Length of each span.
    pub span_ms: u64,
    pub spans: Vec<Span>,
    /// All spans together.
    pub total: Span,
    /// False when there were too many jobs to look at: the oldest are missing.
    pub complete: bool,
}

impl From<figures::Figures> for Stats {
    fn from(figures: figures::Figures) -> Self {
        let begin = |index: usize| {
            let offset = figures.each.saturating_mul(index as u32);
            figures.from.checked_add(offset).unwrap_or(Timestamp::MAX)
        };
        Self {
            span_ms: figures.each.as_millis() as u64,
            spans: figures.spans.iter().enumerate().map(|(at, span)| Span::new(begin(at), span)).collect(),
            total: Span::new(figures.from, &figures.total),
            complete: figures.complete,
        }
    }
}

/// Where the tenant is told of the ends of its jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Webhook {
    #[schema(example = "https://example.com/hooks/everypage")]
    pub url: String,
    /// Messages are signed with it; only in the answer that sets it, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}
