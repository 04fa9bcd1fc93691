//! The events of a job and their data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CallOptions, JobOptions, PageSelection, Plan, RequestSource, State};
use crate::{
    event::DomainEvent,
    ids::{PageNumber, Priority, TenantId},
    money::MicroUsd,
    settings::OcrPages,
    source::Source,
    trace::TraceContext,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentInfo {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// The findings of preparing a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Pages of the whole document.
    pub document_pages: u32,
    /// The selected pages in ranges, in order.
    pub ranges: Vec<PageRange>,
    pub text_only: u32,
    pub has_graphics: u32,
    pub unreadable: u32,
    /// False if the deadline passed before every range was prepared.
    pub complete: bool,
    /// Which pages are recognized by OCR, as the tenant's settings said then.
    #[serde(default, skip_serializing_if = "OcrPages::is_auto")]
    pub ocr: OcrPages,
}

impl Survey {
    /// The selected pages. Each of them gets text in the result.
    pub fn pages(&self) -> impl Iterator<Item = PageNumber> + '_ {
        self.ranges.iter().flat_map(|range| range.pages.pages(u32::MAX))
    }

    pub fn page_count(&self) -> u32 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    pub fn range_of(&self, page: PageNumber) -> Option<&PageRange> {
        self.ranges.iter().find(|range| range.first <= page && page <= range.last)
    }
}

/// Pages that are prepared together and whose text is stored in one blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRange {
    pub first: PageNumber,
    pub last: PageNumber,
    pub count: u32,
    /// The pages themselves: `first-last`, or a list where the selection has gaps.
    pub pages: PageSelection,
}

/// The numbers of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(remote = "Self")] // see `metadata.rs`
pub struct ResultMetadata {
    /// Pages of the job.
    pub total_pages: u32,
    /// Pages planned to be read by AI.
    pub ai_pages: u32,
    /// Of `ai_pages`, those settled with text from AI.
    pub pages_done: u32,
    /// Of `ai_pages`, those settled without text from AI.
    pub pages_failed: u32,
    /// Characters of all pages in the plain-text format.
    pub result_text_len: u64,
    /// Pages with a model's text.
    pub ai_pages_succeeded: u32,
    /// Pages with our own text where a model's was planned.
    pub mupdf_fallback_count: u32,
    /// Whether the deadline came before every page was read.
    pub timeout_occurred: bool,
    /// Whether the job was cancelled before every page was read.
    pub cancelled: bool,
    /// Pages without text from any source.
    pub missing_pages: u32,
    /// Their numbers.
    pub missing_page_numbers: Vec<PageNumber>,
    /// Pages that have our own text because of the deadline.
    pub timeout_fallback_pages: u32,
    /// Their numbers.
    pub timeout_fallback_page_numbers: Vec<PageNumber>,
    /// Pages with a model's text.
    pub final_ai_pages: u32,
    /// Pages with MuPDF's text, as planned or because no model answered.
    pub final_mupdf_pages: u32,
    /// Pages with text from OCR, as planned or because no model answered.
    #[serde(default)]
    pub final_ocr_pages: u32,
    /// Pages that have our own text because of the deadline.
    pub final_timeout_fallback_pages: u32,
    /// Number of pages by the source of their text; absent in results of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u32>)]
    pub pages_by_source: BTreeMap<Source, u32>,
    /// Credits that the job was charged.
    pub credits: u32,
    /// The cost of all calls.
    pub cost_micro_usd: MicroUsd,
    /// Tokens that all calls sent.
    pub input_tokens: u64,
    /// Tokens that all calls received.
    pub output_tokens: u64,
}

/// A published version of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRef {
    pub version: u32,
    /// SHA-256 of the JSON format, from which the other formats are made.
    pub sha256: String,
    pub metadata: ResultMetadata,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable name, for programs.
    pub code: String,
    /// Explanation, for people.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub source: RequestSource,
    pub document: DocumentInfo,
    pub options: JobOptions,
    pub idempotency_key: String,
    /// The caller's trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
}

/// Events of a job's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum JobEvent {
    #[serde(rename = "job.received")]
    Received(Received),
    #[serde(rename = "job.acked")]
    Acked {
        deadline: Timestamp,
        /// Its place in line, where it waits until it is admitted; without one, work starts at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
    },
    /// There is room for it: work starts.
    #[serde(rename = "job.admitted")]
    Admitted { deadline: Timestamp },
    #[serde(rename = "job.understood")]
    Understood(Survey),
    #[serde(rename = "job.proposed")]
    Proposed(Plan),
    #[serde(rename = "job.modified")]
    Modified {
        plan: Plan,
        deadline: Timestamp,
        by: String,
        /// What the person changed of the options that calls follow; the others are in the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<CallOptions>,
    },
    /// `credits` are reserved in the tenant's account until the job ends; 0 where credits are unlimited.
    #[serde(rename = "job.approved")]
    Approved {
        by: String,
        #[serde(default, skip_serializing_if = "is_zero")]
        credits: u32,
    },
    #[serde(rename = "job.rejected")]
    Rejected { by: String, reason: String },
    #[serde(rename = "job.deadline_reached")]
    DeadlineReached {},
    /// The deadline was moved while the job ran.
    #[serde(rename = "job.deadline_moved")]
    DeadlineMoved { deadline: Timestamp, by: String },
    #[serde(rename = "job.cancel_requested")]
    CancelRequested { by: String },
    #[serde(rename = "job.executed")]
    Executed(ResultRef),
    #[serde(rename = "job.audited")]
    Audited { credits: u32, cost_micro_usd: MicroUsd, pages_digest: String },
    #[serde(rename = "job.cancelled")]
    Cancelled { result: Option<ResultRef> },
    #[serde(rename = "job.failed")]
    Failed(Failure),
    #[serde(rename = "job.redriven")]
    Redriven {
        deadline: Timestamp,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
    },
    #[serde(rename = "job.healed")]
    Healed { result: ResultRef, pages_digest: String },
    /// Document, text, images and results were removed; the trail stays.
    #[serde(rename = "job.content_removed")]
    ContentRemoved { by: String },
}

impl DomainEvent for JobEvent {
    fn priority(&self) -> Option<Priority> {
        matches!(self, Self::Failed(_)).then_some(Priority::Critical)
    }
}

pub(super) fn is_zero(credits: &u32) -> bool {
    *credits == 0
}

impl JobEvent {
    /// The state after this event; `None` if it does not change the state.
    pub fn leads_to(&self) -> Option<State> {
        match self {
            Self::Received(_) => Some(State::Received),
            Self::Acked { .. } | Self::Redriven { .. } => Some(State::Acked),
            Self::Understood(_) => Some(State::Understood),
            Self::Proposed(_) => Some(State::Proposed),
            Self::Modified { .. } => Some(State::Modified),
            Self::Approved { .. } => Some(State::Approved),
            Self::Rejected { .. } => Some(State::Rejected),
            Self::Executed(_) => Some(State::Executed),
            Self::Audited { .. } => Some(State::Audited),
            Self::Cancelled { .. } => Some(State::Cancelled),
            Self::Failed(_) => Some(State::Failed),
            Self::Admitted { .. }
            | Self::DeadlineReached {}
            | Self::DeadlineMoved { .. }
            | Self::CancelRequested { .. }
            | Self::Healed { .. }
            | Self::ContentRemoved { .. } => None,
        }
    }
}
