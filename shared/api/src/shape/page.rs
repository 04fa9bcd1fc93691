use everypage_core::{
    document::Reason,
    finish::{
        page_status::{self, WaitingPage},
        result::PageResult,
    },
    ids::PageNumber,
    providers::target::Provider,
    read::{outcome, pages},
    source::Source,
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::{ToSchema, openapi::Schema};

use super::name;
use crate::openapi::one_of;

/// The schema of the option `provider`.
pub fn provider_schema() -> Schema {
    one_of(Provider::NAMES.iter().copied(), "The provider that is called first.")
}

/// The progress of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageStatus {
    /// Not started yet.
    Planned,
    /// A worker processes the page.
    Working,
    /// No model could be called, or none gave the page's text: `waiting` says why and until when.
    Waiting,
    Settled,
}

impl From<page_status::PageStatus> for PageStatus {
    fn from(status: page_status::PageStatus) -> Self {
        match status {
            page_status::PageStatus::Planned => Self::Planned,
            page_status::PageStatus::Working => Self::Working,
            page_status::PageStatus::Waiting => Self::Waiting,
            page_status::PageStatus::Settled => Self::Settled,
        }
    }
}

/// Why a page waits for its next round of model calls, and until when.
#[derive(Debug, Serialize, ToSchema)]
pub struct Waiting {
    /// `rate_limited`, `breaker_open`, `call_failed` or `no_slot`.
    #[schema(example = "rate_limited")]
    pub reason: String,
    /// When the next round starts at the latest; it starts earlier when a model becomes available.
    pub until: Timestamp,
    /// The provider of the model that is expected to be available first.
    #[schema(example = "openai")]
    pub provider: String,
    /// The model that is expected to be available first.
    #[schema(example = "gpt-5.4")]
    pub model: String,
    /// Rounds of model calls so far.
    pub rounds: u32,
}

impl From<page_status::WaitingPage> for Waiting {
    fn from(waiting: page_status::WaitingPage) -> Self {
        Self {
            reason: waiting.reason.name().to_owned(),
            until: waiting.until,
            provider: waiting.target.provider.to_string(),
            model: waiting.target.model,
            rounds: waiting.rounds,
        }
    }
}

/// One call to a model, or one that was skipped because its circuit breaker was open.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelCall {
    /// The provider of the model.
    #[schema(example = "openai")]
    pub provider: String,
    /// The model.
    #[schema(example = "gpt-5.4")]
    pub model: String,
    /// The outcome, such as `answered`, `timeout`, `transient`, `exhausted` or `breaker_open`.
    #[schema(example = "answered")]
    pub result: String,
    /// The provider's error.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub detail: String,
    /// When the call started.
    pub started_at: Timestamp,
    /// The duration of the call in milliseconds.
    pub latency_ms: u64,
    /// Tokens that the call sent.
    pub input_tokens: u64,
    /// Tokens that the call received.
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl From<outcome::ModelCall> for ModelCall {
    fn from(call: outcome::ModelCall) -> Self {
        Self {
            provider: call.target.provider.to_string(),
            model: call.target.model,
            result: name(call.result),
            detail: call.detail,
            started_at: call.started_at,
            latency_ms: call.latency_ms,
            input_tokens: call.input_tokens,
            output_tokens: call.output_tokens,
            cost_micro_usd: call.cost_micro_usd.0,
        }
    }
}

/// A page and the source of its text. The text itself is in the result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page {
    /// The number of the page in the document.
    #[schema(minimum = 1, example = 7)]
    pub page: u32,
    pub status: PageStatus,
    /// Set while `status` is `waiting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// `ai`, `mupdf`, `mupdf_fallback` or `mupdf_timeout_fallback`; absent until the page is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ai")]
    pub source: Option<String>,
    /// `TEXT_ONLY` or `HAS_GRAPHICS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "HAS_GRAPHICS")]
    pub classification: Option<String>,
    /// Why the page was classified so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "scanned")]
    pub reason: Option<String>,
    /// The provider that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the page has no text of a model, or no text at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason: Option<String>,
    /// Absent until a result is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_text: Option<bool>,
    /// Model calls in the order in which they were made; before the page is settled, those so far.
    pub calls: Vec<ModelCall>,
    /// Millionths of a US dollar, all calls together.
    pub cost_micro_usd: u64,
    /// When the first worker took the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the page was settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

impl Page {
    /// A page whose record and text do not exist yet.
    pub fn planned(page: PageNumber) -> Self {
        Self {
            page: page.get(),
            status: PageStatus::Planned,
            waiting: None,
            source: None,
            classification: None,
            reason: None,
            provider: None,
            model: None,
            fallback_reason: None,
            has_text: None,
            calls: Vec::new(),
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

    /// The page keeps MuPDF's text, as planned.
    pub fn kept(self) -> Self {
        Self { status: PageStatus::Settled, source: Some(Source::MUPDF.to_string()), ..self }
    }

    /// A page that a worker has touched and not settled, with the calls so far.
    pub fn unsettled(self, status: page_status::PageStatus, record: pages::Page) -> Self {
        let is_waiting = status == page_status::PageStatus::Waiting;
        Self {
            status: status.into(),
            waiting: record.waiting.filter(|_| is_waiting).map(WaitingPage::from).map(Waiting::from),
            cost_micro_usd: record.earlier_calls.iter().map(|call| call.cost_micro_usd.0).sum(),
            calls: record.earlier_calls.into_iter().map(ModelCall::from).collect(),
            ..self
        }
    }

    pub fn settled(self, settlement: outcome::Settlement) -> Self {
        Self {
            status: PageStatus::Settled,
            source: Some(settlement.source.to_string()),
            cost_micro_usd: settlement.cost().0,
            provider: settlement.target.as_ref().map(|target| target.provider.to_string()),
            model: settlement.target.map(|target| target.model),
            fallback_reason: settlement.fallback_reason,
            calls: settlement.calls.into_iter().map(ModelCall::from).collect(),
            started_at: Some(settlement.started_at),
            settled_at: Some(settlement.settled_at),
            ..self
        }
    }
}

/// The image of a page.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageImage {
    /// The route of the image.
    #[schema(example = "/v1/jobs/01kab2y7e9q4c0m8t5w3r6x1zd/pages/7/image")]
    pub href: String,
    /// Whether this image was sent to models; otherwise it is rendered on request.
    pub sent: bool,
    /// The width, where the image is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_px: Option<u32>,
    /// The height, where the image is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_px: Option<u32>,
}

/// One settlement of a page: the first, or one after a redrive or heal.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settlement {
    /// `ai`, `mupdf`, `mupdf_fallback` or `mupdf_timeout_fallback`.
    #[schema(example = "mupdf_fallback")]
    pub source: String,
    /// The provider that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the page has no text of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason: Option<String>,
    /// Model calls in the order in which they were made.
    pub calls: Vec<ModelCall>,
    /// When a worker took the page.
    pub started_at: Timestamp,
    /// When the page was settled.
    pub settled_at: Timestamp,
}

impl From<outcome::Settlement> for Settlement {
    fn from(settlement: outcome::Settlement) -> Self {
        Self {
            source: settlement.source.to_string(),
            provider: settlement.target.as_ref().map(|target| target.provider.to_string()),
            model: settlement.target.map(|target| target.model),
            fallback_reason: settlement.fallback_reason,
            calls: settlement.calls.into_iter().map(ModelCall::from).collect(),
            started_at: settlement.started_at,
            settled_at: settlement.settled_at,
        }
    }
}

/// A page with its text and its history.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageDetail {
    #[serde(flatten)]
    pub page: Page,
    /// The text in the latest result or, before the first, the best text so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text that MuPDF read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mupdf_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PageImage>,
    /// Oldest first; empty for pages that were not sent to a model.
    pub settlements: Vec<Settlement>,
}

impl From<PageResult> for Page {
    fn from(page: PageResult) -> Self {
        Self {
            page: page.page.get(),
            status: page.status.map_or(PageStatus::Settled, PageStatus::from),
            waiting: page.waiting.map(Waiting::from),
            source: Some(page.source.to_string()),
            classification: Some(name(page.classification)),
            reason: Some(name(page.reason)),
            provider: page.read_by.provider.map(|provider| provider.to_string()),
            model: page.read_by.model,
            fallback_reason: page.fallback_reason,
            has_text: Some(page.has_text),
            calls: page.calls.into_iter().map(ModelCall::from).collect(),
            cost_micro_usd: page.cost_micro_usd.0,
            started_at: page.started_at,
            settled_at: page.settled_at,
        }
    }
}
