use everypage_core::domain::{
    document::Reason,
    ids::PageNumber,
    outcome::{self, Outcome, Source},
    result::PageResult,
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::name;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageStatus {
    Waiting,
    /// A worker has it.
    Working,
    Settled,
}

/// One call to a model, or one that was not made because its breaker was open.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt {
    #[schema(example = "openai")]
    pub provider: String,
    #[schema(example = "gpt-5.4")]
    pub model: String,
    /// Such as `answered`, `timeout`, `transient`, `exhausted` or `breaker_open`.
    #[schema(example = "answered")]
    pub result: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub detail: String,
    pub started_at: Timestamp,
    pub latency_ms: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl From<outcome::Attempt> for Attempt {
    fn from(attempt: outcome::Attempt) -> Self {
        Self {
            provider: attempt.target.provider.to_string(),
            model: attempt.target.model,
            result: name(attempt.result),
            detail: attempt.detail,
            started_at: attempt.started_at,
            latency_ms: attempt.latency_ms,
            input_tokens: attempt.input_tokens,
            output_tokens: attempt.output_tokens,
            cost_micro_usd: attempt.cost_micro_usd.0,
        }
    }
}

/// A page and where its text comes from. The text itself is in the result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page {
    /// Its true number in the document.
    #[schema(minimum = 1, example = 7)]
    pub page: u32,
    pub status: PageStatus,
    /// `ai`, `mupdf`, `mupdf_fallback` or `mupdf_timeout_fallback`; absent until it is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ai")]
    pub source: Option<String>,
    /// `TEXT_ONLY` or `HAS_GRAPHICS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "HAS_GRAPHICS")]
    pub classification: Option<String>,
    /// Why it was classified so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "scanned")]
    pub reason: Option<String>,
    /// Who read it, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why there is no AI text, or none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Known once there is a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_text: Option<bool>,
    pub attempts: Vec<Attempt>,
    /// Millionths of a US dollar, all attempts together.
    pub cost_micro_usd: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

impl Page {
    /// A page of which nothing is known but its number.
    pub fn waiting(page: PageNumber) -> Self {
        Self {
            page: page.get(),
            status: PageStatus::Waiting,
            source: None,
            classification: None,
            reason: None,
            provider: None,
            model: None,
            why: None,
            has_text: None,
            attempts: Vec::new(),
            cost_micro_usd: 0,
            started_at: None,
            settled_at: None,
        }
    }

    pub fn classified(self, reason: Option<Reason>) -> Self {
        Self {
            classification: reason.map(|reason| name(reason.classification())),
            reason: reason.map(name),
            ..self
        }
    }

    /// MuPDF's text stands, as planned.
    pub fn kept(self) -> Self {
        Self { status: PageStatus::Settled, source: Some(Source::Mupdf.to_string()), ..self }
    }

    pub fn settled(self, outcome: Outcome) -> Self {
        Self {
            status: PageStatus::Settled,
            source: Some(outcome.source.to_string()),
            cost_micro_usd: outcome.cost().0,
            provider: outcome.target.as_ref().map(|target| target.provider.to_string()),
            model: outcome.target.map(|target| target.model),
            why: outcome.why,
            attempts: outcome.attempts.into_iter().map(Attempt::from).collect(),
            started_at: Some(outcome.started_at),
            settled_at: Some(outcome.settled_at),
            ..self
        }
    }
}

/// A picture of a page.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageImage {
    #[schema(example = "/v1/jobs/01kab2y7e9q4c0m8t5w3r6x1zd/pages/7/image")]
    pub href: String,
    /// Models were sent it; else it is drawn for whoever looks.
    pub sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_px: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_px: Option<u32>,
}

/// One time that a page was settled: at first, or after it was redriven or healed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settlement {
    #[schema(example = "mupdf_fallback")]
    pub source: String,
    /// Who read it, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// In the order in which they were made.
    pub attempts: Vec<Attempt>,
    pub started_at: Timestamp,
    pub settled_at: Timestamp,
}

impl From<Outcome> for Settlement {
    fn from(outcome: Outcome) -> Self {
        Self {
            source: outcome.source.to_string(),
            provider: outcome.target.as_ref().map(|target| target.provider.to_string()),
            model: outcome.target.map(|target| target.model),
            why: outcome.why,
            attempts: outcome.attempts.into_iter().map(Attempt::from).collect(),
            started_at: outcome.started_at,
            settled_at: outcome.settled_at,
        }
    }
}

/// A page with its text and its history.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageDetail {
    #[serde(flatten)]
    pub page: Page,
    /// As it is in the latest result or, before there is one, as it would be now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What MuPDF read from the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mupdf_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PageImage>,
    /// Oldest first; none for pages that went to no model.
    pub settlements: Vec<Settlement>,
}

impl From<PageResult> for Page {
    fn from(page: PageResult) -> Self {
        Self {
            page: page.page.get(),
            status: PageStatus::Settled,
            source: Some(page.source.to_string()),
            classification: Some(name(page.classification)),
            reason: Some(name(page.reason)),
            provider: page.read_by.provider.map(|provider| provider.to_string()),
            model: page.read_by.model,
            why: page.why,
            has_text: Some(page.has_text),
            attempts: page.attempts.into_iter().map(Attempt::from).collect(),
            cost_micro_usd: page.cost_micro_usd.0,
            started_at: page.started_at,
            settled_at: page.settled_at,
        }
    }
}
