//! The events of a job, and the values that they carry.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobOptions, PageSelection, Plan, State};
use crate::{
    ids::{PageNumber, TenantId},
    money::MicroUsd,
    trace::TraceContext,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentInfo {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// What intake found in the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Pages of the document.
    pub document_pages: u32,
    /// Prepared ranges of the selected pages, in order.
    pub ranges: Vec<PageRange>,
    pub text_only: u32,
    pub has_graphics: u32,
    pub unreadable: u32,
    /// False when the deadline came before every range was prepared.
    pub complete: bool,
}

impl Survey {
    /// Pages of the job: those selected, each of which gets text.
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

/// Pages that were prepared together and whose text is one blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRange {
    pub first: PageNumber,
    pub last: PageNumber,
    pub count: u32,
    /// The same pages, written out where the selection has gaps.
    pub pages: PageSelection,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultMetadata {
    pub total_pages: u32,
    /// Pages that were to be read by AI.
    pub ai_pages: u32,
    /// Of those, settled with an AI's text.
    pub pages_done: u32,
    /// Of those, settled without.
    pub pages_failed: u32,
    /// Characters of the plain-text form's pages.
    pub result_text_len: u64,
    pub ai_pages_succeeded: u32,
    pub mupdf_fallback_count: u32,
    pub timeout_occurred: bool,
    pub cancelled: bool,
    /// Pages with no text from anybody.
    pub missing_pages: Vec<PageNumber>,
    pub timeout_fallback_pages: Vec<PageNumber>,
    pub final_ai_pages: u32,
    pub final_mupdf_pages: u32,
    pub final_timeout_fallback_pages: u32,
    pub credits: u32,
    pub cost_micro_usd: MicroUsd,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// A published version of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRef {
    pub version: u32,
    /// Of the JSON form, from which the others are made.
    pub sha256: String,
    pub metadata: ResultMetadata,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable, for scripts.
    pub code: String,
    /// For people.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The door it came through: `cli`, `api` or `s3`.
    pub source: String,
    pub document: DocumentInfo,
    pub options: JobOptions,
    pub idempotency_key: String,
    /// Where in their own trace the caller was.
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
    Acked { deadline: Timestamp },
    #[serde(rename = "job.understood")]
    Understood(Survey),
    #[serde(rename = "job.proposed")]
    Proposed(Plan),
    #[serde(rename = "job.modified")]
    Modified { plan: Plan, deadline: Timestamp, by: String },
    /// `credits` are held from the tenant's account until the job ends; none where they are unlimited.
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
    Redriven { deadline: Timestamp, by: String },
    #[serde(rename = "job.healed")]
    Healed { result: ResultRef, pages_digest: String },
}

pub(super) fn is_zero(credits: &u32) -> bool {
    *credits == 0
}

impl JobEvent {
    /// The state it leads to; `None` for what is noted without a change of state.
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
            Self::DeadlineReached {} | Self::CancelRequested { .. } | Self::Healed { .. } => None,
        }
    }
}
