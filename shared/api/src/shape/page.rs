use everypage_core::{
    document::{Block, Classification, Confidence, Doubt, PageBox, Reason},
    finish::{
        page_status::{PageStatus, WaitingPage},
        result::PageResult,
    },
    ids::PageNumber,
    prepare::StoredPage,
    providers::target::Provider,
    read::{
        outcome::{self, ModelCall},
        pages,
    },
    source::Source,
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A page and the source of its text. The text itself is in the result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page {
    /// The number of the page in the document.
    #[schema(minimum = 1, example = 7)]
    pub page: u32,
    pub status: PageStatus,
    /// Set while `status` is `waiting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingPage>,
    /// Absent until the page is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Absent until the page is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classification: Option<Classification>,
    /// Why the page was classified so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How sure the text is, 0 to 1: our own reading by what was found on the page, a model's by how far it agrees
    /// with our own. Absent where a model's text could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What makes our own reading less sure; empty where a model read the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub doubts: Vec<Doubt>,
    /// The provider that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
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
            confidence: None,
            doubts: Vec::new(),
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
        Self { classification: reason.map(Reason::classification), reason, ..self }
    }

    /// The page keeps our own text, as planned: what OCR recognized, or MuPDF's.
    pub fn kept(self, stored: &StoredPage) -> Self {
        let source = if stored.is_recognized { Source::OCR } else { Source::MUPDF };
        let (confidence, doubts) = (Some(stored.confidence), stored.doubts.clone());
        Self { status: PageStatus::Settled, source: Some(source), confidence, doubts, ..self }
    }

    /// A page that a worker has touched and not settled, with the calls so far.
    pub fn unsettled(self, status: PageStatus, record: pages::Page) -> Self {
        let is_waiting = status == PageStatus::Waiting;
        Self {
            status,
            waiting: record.waiting.filter(|_| is_waiting).map(WaitingPage::from),
            cost_micro_usd: record.earlier_calls.iter().map(|call| call.cost_micro_usd.0).sum(),
            calls: record.earlier_calls,
            ..self
        }
    }

    pub fn settled(self, settlement: outcome::Settlement) -> Self {
        Self {
            status: PageStatus::Settled,
            source: Some(settlement.source),
            cost_micro_usd: settlement.cost().0,
            provider: settlement.target.as_ref().map(|target| target.provider),
            confidence: settlement.confidence,
            model: settlement.target.map(|target| target.model),
            fallback_reason: settlement.fallback_reason,
            calls: settlement.calls,
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
    pub source: Source,
    /// The provider that read the page, when `source` is `ai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
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
            source: settlement.source,
            provider: settlement.target.as_ref().map(|target| target.provider),
            model: settlement.target.map(|target| target.model),
            fallback_reason: settlement.fallback_reason,
            calls: settlement.calls,
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
    /// What MuPDF's text is made of, in reading order: headings, paragraphs, tables, figures; running headers and
    /// footers, which are not part of the text, included.
    pub blocks: Vec<Block>,
    /// The page itself, in the units of its blocks.
    #[serde(rename = "box", skip_serializing_if = "PageBox::is_empty")]
    #[schema(required = false)]
    pub area: PageBox,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PageImage>,
    /// Oldest first; empty for pages that were not sent to a model.
    pub settlements: Vec<Settlement>,
}

impl From<PageResult> for Page {
    fn from(page: PageResult) -> Self {
        Self {
            page: page.page.get(),
            status: page.status.unwrap_or(PageStatus::Settled),
            waiting: page.waiting,
            source: Some(page.source),
            classification: Some(page.classification),
            reason: Some(page.reason),
            confidence: page.confidence,
            doubts: page.doubts,
            provider: page.read_by.provider,
            model: page.read_by.model,
            fallback_reason: page.fallback_reason,
            has_text: Some(page.has_text),
            calls: page.calls,
            cost_micro_usd: page.cost_micro_usd.0,
            started_at: page.started_at,
            settled_at: page.settled_at,
        }
    }
}
