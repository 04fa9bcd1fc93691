//! The result of a job: every page once, in order, under its true number.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    document::{Block, Classification, Confidence, Doubt, Reason},
    ids::{JobId, PageNumber},
    job::ResultMetadata,
    money::MicroUsd,
    providers::target::Target,
    read::outcome::{ModelCall, Settlement},
    source::{Fallback, Source, TextSource},
};

use super::page_status::{PageStatus, WaitingPage};

/// One page of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageResult {
    /// The number of the page in the document.
    pub page: PageNumber,
    pub source: Source,
    pub classification: Classification,
    pub reason: Reason,
    /// How sure the text is, 0 to 1: our own reading by what was found on the page, an AI's by how far it agrees with
    /// our own. Absent where an AI's text could not be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What makes our own reading less sure; empty where an AI read the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub doubts: Vec<Doubt>,
    #[serde(flatten)]
    pub read_by: ReadBy,
    /// Why the page has no AI text although it was planned, or no text at all.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "why")]
    pub fallback_reason: Option<String>,
    /// Model calls in the order in which they were made.
    #[serde(alias = "attempts")]
    pub calls: Vec<ModelCall>,
    /// All calls together, in milliseconds.
    pub latency_ms: u64,
    /// Tokens that all calls sent.
    pub input_tokens: u64,
    /// Tokens that all calls received.
    pub output_tokens: u64,
    /// The cost of all calls.
    pub cost_micro_usd: MicroUsd,
    /// When the first worker took the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the page was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// False where `text` is only the placeholder.
    pub has_text: bool,
    /// The text of the page.
    pub text: String,
    /// What the text is made of, page headers and footers included; empty where an AI read the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    /// How far the page is; only in provisional results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PageStatus>,
    /// Why the page waits and until when; only in provisional results, while `status` is `waiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingPage>,
}

/// The model that read a page; both are null where none did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadBy {
    pub provider: Option<crate::providers::target::Provider>,
    /// The name of the model.
    pub model: Option<String>,
}

impl From<Option<&Target>> for ReadBy {
    fn from(target: Option<&Target>) -> Self {
        Self { provider: target.map(|t| t.provider), model: target.map(|t| t.model.clone()) }
    }
}

/// The result of a job in the JSON format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultDocument {
    /// The job continues and the pages may still change. Never set in a published result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
    /// The id of the job.
    #[schema(value_type = String)]
    pub job_id: JobId,
    /// Counts from 1; 0 in a provisional result.
    pub version: u32,
    /// The name of the document.
    pub document: String,
    /// The hash of the document.
    pub document_sha256: String,
    /// When this version was made.
    pub created_at: Timestamp,
    pub metadata: ResultMetadata,
    /// Every page of the job, in order.
    pub pages: Vec<PageResult>,
}

/// The input for one page.
pub struct PageInput {
    pub page: PageNumber,
    pub reason: Reason,
    /// The page's own text, and where it comes from: MuPDF or OCR.
    pub own_text: Option<String>,
    pub own_source: TextSource,
    /// What it is made of.
    pub own_blocks: Vec<Block>,
    /// How sure it is, and why not more.
    pub confidence: Option<Confidence>,
    pub doubts: Vec<Doubt>,
    /// Why there is none.
    pub fault: Option<String>,
    pub sent_to_ai: bool,
    /// Whether OCR may still change its own text.
    pub awaits_ocr: bool,
    pub settled: Option<(Settlement, Option<String>)>,
    /// Calls that are part of no settlement.
    pub other_calls: Vec<ModelCall>,
}

/// Why a result is published now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Settled,
    Deadline,
    Cancelled,
}

/// One page of the result: the AI's text if it is there, else our own. Without a `cause` the job continues:
/// a page that is not settled has our own text for now, which is not a fallback yet.
pub(super) fn page_result(input: PageInput, cause: Option<Cause>) -> PageResult {
    let (outcome, ai_text) = input.settled.map_or((None, None), |(outcome, text)| (Some(outcome), text));
    let ai_text = ai_text.filter(|_| outcome.as_ref().is_some_and(Settlement::is_ai));
    let own = |fallback| Source { text: input.own_source, fallback };
    let source = match (&ai_text, &outcome, input.sent_to_ai) {
        (Some(_), _, _) => Source::AI,
        // Settled by an AI, but its text is gone.
        (None, Some(outcome), _) if outcome.is_ai() => own(Some(Fallback::NoAnswer)),
        (None, Some(outcome), _) => own(outcome.source.fallback),
        (None, None, false) => own(None),
        (None, None, true) => own(match cause {
            None => None,
            Some(Cause::Deadline) => Some(Fallback::Timeout),
            Some(Cause::Settled | Cause::Cancelled) => Some(Fallback::NoAnswer),
        }),
    };
    let fallback_reason = match (source, &outcome, cause) {
        (Source::AI, _, _) => None,
        (source, _, _) if !source.is_fallback() => input.fault,
        (_, Some(outcome), _) => outcome.fallback_reason.clone(),
        (_, None, Some(Cause::Deadline)) => Some("the deadline came before an answer".to_owned()),
        (_, None, Some(Cause::Cancelled)) => Some("the job was cancelled before an answer".to_owned()),
        (_, None, Some(Cause::Settled) | None) => Some("no answer was stored".to_owned()),
    };
    let (blocks, confidence, doubts) = match &ai_text {
        Some(_) => (vec![], outcome.as_ref().and_then(|outcome| outcome.confidence), vec![]),
        None => (input.own_blocks, input.confidence, input.doubts),
    };
    let text = ai_text.or(input.own_text).filter(|text| !text.trim().is_empty());
    let blank = input.reason == Reason::Blank;
    let has_text = text.is_some() || blank;
    let text = match text {
        Some(text) => text.trim_end().to_owned(),
        None if blank => String::new(),
        None => format!("[Page {} - text not available]", input.page),
    };
    let mut calls = outcome.as_ref().map(|outcome| outcome.calls.clone()).unwrap_or_default();
    calls.extend(input.other_calls);
    PageResult {
        page: input.page,
        source,
        classification: input.reason.classification(),
        reason: input.reason,
        confidence,
        doubts,
        read_by: outcome.as_ref().and_then(|outcome| outcome.target.as_ref()).into(),
        fallback_reason,
        calls: vec![],
        latency_ms: 0,
        input_tokens: 0,
        output_tokens: 0,
        cost_micro_usd: MicroUsd::default(),
        started_at: outcome.as_ref().map(|outcome| outcome.started_at),
        settled_at: outcome.as_ref().map(|outcome| outcome.settled_at),
        has_text,
        text,
        blocks,
        status: None,
        waiting: None,
    }
    .with_calls(calls)
}

impl PageResult {
    /// Sets the calls made for the page, and what they took together.
    pub(super) fn with_calls(self, calls: Vec<ModelCall>) -> Self {
        let mut cost_micro_usd = MicroUsd::default();
        for call in &calls {
            cost_micro_usd += call.cost_micro_usd;
        }
        Self {
            latency_ms: calls.iter().map(|call| call.latency_ms).sum(),
            input_tokens: calls.iter().map(|call| call.input_tokens).sum(),
            output_tokens: calls.iter().map(|call| call.output_tokens).sum(),
            cost_micro_usd,
            calls,
            ..self
        }
    }
}

/// Assembles the result. `inputs` are the job's pages in order.
pub fn assemble(
    job_id: JobId,
    version: u32,
    document: (String, String),
    created_at: Timestamp,
    cause: Cause,
    inputs: impl IntoIterator<Item = PageInput>,
) -> ResultDocument {
    let mut ai_pages = 0;
    let pages: Vec<PageResult> = inputs
        .into_iter()
        .map(|input| {
            ai_pages += u32::from(input.sent_to_ai);
            page_result(input, Some(cause))
        })
        .collect();
    ResultDocument {
        provisional: false,
        job_id,
        version,
        document: document.0,
        document_sha256: document.1,
        created_at,
        metadata: metadata(&pages, ai_pages, Some(cause)),
        pages,
    }
}

/// The numbers of a result, of whose pages `ai_pages` were planned for AI. Without a `cause` the job continues,
/// so pages that are not settled have not failed.
pub(super) fn metadata(pages: &[PageResult], ai_pages: u32, cause: Option<Cause>) -> ResultMetadata {
    let count = |source| pages.iter().filter(|page| page.source == source).count() as u32;
    let numbers = |wanted: &dyn Fn(&PageResult) -> bool| {
        pages.iter().filter(|page| wanted(page)).map(|page| page.page).collect::<Vec<_>>()
    };
    let mut cost = MicroUsd::default();
    for page in pages {
        cost += page.cost_micro_usd;
    }
    let succeeded = count(Source::AI);
    let is_timeout = |page: &PageResult| page.source.fallback == Some(Fallback::Timeout);
    let missing = numbers(&|page| !page.has_text);
    let timeouts = pages.iter().filter(|page| is_timeout(page)).count() as u32;
    let fallbacks = pages.iter().filter(|page| page.source.is_fallback()).count() as u32;
    let mut pages_by_source = BTreeMap::new();
    for page in pages {
        *pages_by_source.entry(page.source).or_default() += 1;
    }
    ResultMetadata {
        total_pages: pages.len() as u32,
        ai_pages,
        pages_done: succeeded,
        pages_failed: match cause {
            Some(_) => ai_pages.saturating_sub(succeeded),
            None => fallbacks,
        },
        result_text_len: pages.iter().map(|page| page.text.chars().count() as u64).sum(),
        ai_pages_succeeded: succeeded,
        mupdf_fallback_count: fallbacks,
        timeout_occurred: cause == Some(Cause::Deadline) || timeouts > 0,
        cancelled: cause == Some(Cause::Cancelled),
        missing_pages: missing.len() as u32,
        missing_page_numbers: missing,
        timeout_fallback_pages: timeouts,
        timeout_fallback_page_numbers: numbers(&is_timeout),
        final_ai_pages: succeeded,
        final_mupdf_pages: count(Source::MUPDF) + count(Source::MUPDF_FALLBACK),
        final_ocr_pages: count(Source::OCR) + count(Source::OCR_FALLBACK),
        final_timeout_fallback_pages: timeouts,
        pages_by_source,
        credits: succeeded,
        cost_micro_usd: cost,
        input_tokens: pages.iter().map(|page| page.input_tokens).sum(),
        output_tokens: pages.iter().map(|page| page.output_tokens).sum(),
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
