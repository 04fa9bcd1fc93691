use everypage_core::{ids::PageNumber, job::ResultMetadata, money::MicroUsd};
use serde::Serialize;
use utoipa::ToSchema;

/// The numbers of a result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Metadata {
    /// Pages of the job.
    pub total_pages: u32,
    /// Pages that the plan sent to a model.
    pub ai_pages: u32,
    /// Of `ai_pages`, pages with a model's text.
    pub pages_done: u32,
    /// Of `ai_pages`, pages with a fallback.
    pub pages_failed: u32,
    /// Characters of all pages together.
    pub result_text_len: u64,
    /// Pages with a model's text.
    pub ai_pages_succeeded: u32,
    /// Pages with MuPDF's text where a model's was planned.
    pub mupdf_fallback_count: u32,
    /// Whether the deadline came before every page was read.
    pub timeout_occurred: bool,
    /// Whether the job was cancelled before every page was read.
    pub cancelled: bool,
    /// Numbers of pages without text from any source.
    pub missing_pages: Vec<u32>,
    /// Numbers of pages that got MuPDF's text because of the deadline.
    pub timeout_fallback_pages: Vec<u32>,
    /// Pages with a model's text.
    pub final_ai_pages: u32,
    /// Pages with MuPDF's text.
    pub final_mupdf_pages: u32,
    /// Pages that got MuPDF's text because of the deadline.
    pub final_timeout_fallback_pages: u32,
    /// Credits that the job was charged.
    pub credits: u32,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Tokens that all calls sent.
    pub input_tokens: u64,
    /// Tokens that all calls received.
    pub output_tokens: u64,
}

impl From<ResultMetadata> for Metadata {
    fn from(from: ResultMetadata) -> Self {
        let numbers = |pages: Vec<PageNumber>| pages.into_iter().map(|page| page.get()).collect();
        let MicroUsd(cost_micro_usd) = from.cost_micro_usd;
        Self {
            total_pages: from.total_pages,
            ai_pages: from.ai_pages,
            pages_done: from.pages_done,
            pages_failed: from.pages_failed,
            result_text_len: from.result_text_len,
            ai_pages_succeeded: from.ai_pages_succeeded,
            mupdf_fallback_count: from.mupdf_fallback_count,
            timeout_occurred: from.timeout_occurred,
            cancelled: from.cancelled,
            missing_pages: numbers(from.missing_pages),
            timeout_fallback_pages: numbers(from.timeout_fallback_pages),
            final_ai_pages: from.final_ai_pages,
            final_mupdf_pages: from.final_mupdf_pages,
            final_timeout_fallback_pages: from.final_timeout_fallback_pages,
            credits: from.credits,
            cost_micro_usd,
            input_tokens: from.input_tokens,
            output_tokens: from.output_tokens,
        }
    }
}

/// The latest version of the result.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResultInfo {
    /// Counts from 1; each heal publishes the next.
    pub version: u32,
    /// The hash of the JSON format.
    pub sha256: String,
    pub metadata: Metadata,
}

/// The pages that a heal sends to the models.
#[derive(Debug, Serialize, ToSchema)]
pub struct Healing {
    /// The id of the job.
    pub job: String,
    /// Numbers of the pages.
    pub sent: Vec<u32>,
    /// The current version of the result; the heal publishes the next one.
    pub version: u32,
}
