//! The outcome of reading a page: every model call, and how the page was settled.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{answer::judge, reference::Reference, waiting::Waiting};
use crate::{
    digest::sha256_hex,
    document::Confidence,
    event::DomainEvent,
    money::MicroUsd,
    ports::{
        Fault,
        vision::{Answer, Price, VisionError},
    },
    providers::target::Target,
    source::Source,
    time::after,
};

/// How one model call ended.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CallResult {
    Answered,
    Timeout,
    Transient,
    Exhausted,
    Configuration,
    Request,
    Unknown,
    Refusal,
    Empty,
    Truncated,
    Repeating,
    Incomplete,
    /// The answer is another text than the page's.
    Invented,
    /// The breaker was open: no call was made.
    BreakerOpen,
    /// Ended by us before an answer: another model answered first, or the job ended.
    CutOff,
}

impl CallResult {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One call to a model, or one that was skipped because its circuit breaker was open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelCall {
    #[serde(flatten)]
    pub target: Target,
    pub result: CallResult,
    /// The provider's error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// When the call started.
    pub started_at: Timestamp,
    /// The duration of the call in milliseconds.
    pub latency_ms: u64,
    /// Tokens that the call sent.
    pub input_tokens: u64,
    /// Tokens that the call received.
    pub output_tokens: u64,
    pub cost_micro_usd: MicroUsd,
    /// Whether tokens and cost are an estimate, of the request alone: the call was ended before a reply, and the
    /// provider may charge for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimated: bool,
    /// Whether it was made in the provider's cheaper, slower tier.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_flex: bool,
}

impl ModelCall {
    /// A call without a result yet.
    pub fn new(target: &Target, started_at: Timestamp, latency_ms: u64) -> Self {
        Self {
            target: target.clone(),
            result: CallResult::Unknown,
            detail: String::new(),
            started_at,
            latency_ms,
            input_tokens: 0,
            output_tokens: 0,
            cost_micro_usd: MicroUsd::default(),
            is_estimated: false,
            is_flex: false,
        }
    }

    pub fn ended_at(&self) -> Timestamp {
        after(self.started_at, Duration::from_millis(self.latency_ms))
    }

    /// Whether the reason that it gave no text passes: the model may be called again for this page.
    pub fn passes(&self) -> bool {
        use CallResult::*;
        matches!(
            self.result,
            Timeout | Transient | Exhausted | Configuration | Unknown | BreakerOpen | CutOff
        )
    }

    /// Judges the answer, against the page's own text where there is any. Returns how far a good one agrees with it.
    pub fn add_answer(&mut self, answer: &Answer, reference: Option<&Reference>) -> Option<Confidence> {
        let judged = judge(&answer.text, answer.finish, reference);
        self.input_tokens = answer.usage.input_tokens;
        self.output_tokens = answer.usage.output_tokens;
        self.cost_micro_usd = MicroUsd::from_usd(answer.usage.cost_usd);
        match judged {
            Ok(confidence) => {
                self.result = CallResult::Answered;
                confidence
            }
            Err(rejection) => {
                self.result = rejection.result;
                self.detail = rejection.detail;
                None
            }
        }
    }

    /// Adds what a call without a reply may cost: its request.
    pub fn add_estimate(&mut self, input_tokens: u64, price: Option<Price>) {
        self.is_estimated = true;
        self.input_tokens = input_tokens;
        let cost = price.map(|price| price.cost_usd(input_tokens, 0, 1));
        self.cost_micro_usd = MicroUsd::from_usd(cost.unwrap_or_default());
    }

    pub fn add_error(&mut self, error: &VisionError) {
        self.detail = error.to_string();
        self.result = match error {
            VisionError::Transient { .. } => CallResult::Transient,
            VisionError::Exhausted { .. } => CallResult::Exhausted,
            VisionError::Configuration { .. } => CallResult::Configuration,
            VisionError::Request { .. } => CallResult::Request,
            VisionError::Unknown { .. } => CallResult::Unknown,
        };
    }
}

/// How a worker's reading of a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// With a model's text, or with the decision to fall back.
    Settled(Settlement, Option<String>),
    /// With another round to come: the page goes back to the queue until then.
    Waiting(Waiting, Vec<ModelCall>),
    /// The worker has to leave: another worker takes the page now.
    PassedOn(Vec<ModelCall>),
    /// The job is over, or another worker has the page.
    Stopped(Vec<ModelCall>),
    /// Our own storage failed.
    Faulted(Fault, Vec<ModelCall>),
}

impl PageOutcome {
    /// The model calls that were made.
    pub fn calls(&self) -> &[ModelCall] {
        match self {
            Self::Settled(settlement, _) => &settlement.calls,
            Self::Waiting(_, calls)
            | Self::PassedOn(calls)
            | Self::Stopped(calls)
            | Self::Faulted(_, calls) => calls,
        }
    }
}

/// Calls kept per page, the latest ones: a page's record has a size limit.
const MAX_CALLS_KEPT: usize = 100;

/// Drops the oldest calls where there are too many: first those that cost nothing and say nothing about the
/// page, such as rate limits.
pub fn limit_calls(calls: &mut Vec<ModelCall>) {
    let mut surplus = calls.len().saturating_sub(MAX_CALLS_KEPT);
    calls.retain(|call| {
        let is_dropped = surplus > 0 && call.passes() && call.cost_micro_usd == MicroUsd::default();
        surplus -= usize::from(is_dropped);
        !is_dropped
    });
    calls.drain(..calls.len().saturating_sub(MAX_CALLS_KEPT));
}

/// How a page was settled. Its text is stored next to it, see [`Text`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    pub source: Source,
    /// The model that read it, when `source` is `ai`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Why there is no AI text, when `source` is a fallback.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "why")]
    pub fallback_reason: Option<String>,
    /// How far the model's text agrees with our own, where it could be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    #[serde(alias = "attempts")]
    pub calls: Vec<ModelCall>,
    pub text_len: usize,
    pub text_sha256: String,
    pub started_at: Timestamp,
    pub settled_at: Timestamp,
}

impl Settlement {
    pub fn read_by(
        target: Target,
        text: &str,
        confidence: Option<Confidence>,
        calls: Vec<ModelCall>,
        started_at: Timestamp,
        settled_at: Timestamp,
    ) -> Self {
        Self {
            source: Source::AI,
            target: Some(target),
            fallback_reason: None,
            confidence,
            calls,
            text_len: text.chars().count(),
            text_sha256: sha256_hex(text.as_bytes()),
            started_at,
            settled_at,
        }
    }

    /// A fallback stores no text: finalize takes it from the prepared range.
    pub fn fallback(
        fallback_reason: String,
        calls: Vec<ModelCall>,
        started_at: Timestamp,
        settled_at: Timestamp,
    ) -> Self {
        Self {
            source: Source::MUPDF_FALLBACK,
            target: None,
            fallback_reason: Some(fallback_reason),
            confidence: None,
            calls,
            text_len: 0,
            text_sha256: sha256_hex(b""),
            started_at,
            settled_at,
        }
    }

    /// A fallback because the deadline came first.
    pub fn timed_out(calls: Vec<ModelCall>, started_at: Timestamp, settled_at: Timestamp) -> Self {
        let fallback_reason = "the deadline came before an answer".to_owned();
        Self {
            source: Source::MUPDF_TIMEOUT_FALLBACK,
            ..Self::fallback(fallback_reason, calls, started_at, settled_at)
        }
    }

    /// Prepends the calls of an earlier settlement of the page. A fallback because of the job's deadline
    /// stays one.
    pub fn merge_earlier(&mut self, earlier: &Settlement) {
        if self.source == Source::MUPDF_FALLBACK && earlier.source == Source::MUPDF_TIMEOUT_FALLBACK {
            self.source = earlier.source;
        }
        self.prepend_calls(&earlier.calls);
    }

    pub fn prepend_calls(&mut self, earlier: &[ModelCall]) {
        self.calls.splice(0..0, earlier.iter().cloned());
        limit_calls(&mut self.calls);
    }

    pub fn is_ai(&self) -> bool {
        self.source == Source::AI
    }

    /// Whether an AI's text was accepted without anything to compare it with.
    pub fn is_unchecked(&self) -> bool {
        self.is_ai() && self.confidence.is_none()
    }

    pub fn cost(&self) -> MicroUsd {
        let mut total = MicroUsd::default();
        for call in &self.calls {
            total += call.cost_micro_usd;
        }
        total
    }
}

/// Where a settled page's AI text is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    Inline(String),
    /// Too large for a record: the key of a blob.
    Blob(String),
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(text) => write!(f, "Inline({} bytes)", text.len()),
            Self::Blob(key) => write!(f, "Blob({key})"),
        }
    }
}

/// Events of a page's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PageEvent {
    #[serde(rename = "page.settled")]
    Settled(Settlement),
}

impl DomainEvent for PageEvent {}
