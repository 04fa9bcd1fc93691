use everypage_core::{
    domain::{self, job::State, outcome::MicroUsd, result::ResultMetadata},
    ports::uploads,
    store::uploads::Upload,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::name;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    AwaitingUpload,
    Queued,
    Processing,
    AwaitingApproval,
    Success,
    Failed,
    Rejected,
    Cancelled,
}

impl From<domain::job::Status> for Status {
    fn from(status: domain::job::Status) -> Self {
        use domain::job::Status as Core;
        match status {
            Core::Queued => Self::Queued,
            Core::Processing => Self::Processing,
            Core::AwaitingApproval => Self::AwaitingApproval,
            Core::Success => Self::Success,
            Core::Failed => Self::Failed,
            Core::Rejected => Self::Rejected,
            Core::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Document {
    #[schema(example = "harbour-report-2026.pdf")]
    pub name: String,
    /// Absent until the document has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 48211)]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What the job was asked to do, by the names under which it was asked.
#[derive(Debug, Serialize, ToSchema)]
pub struct Options {
    #[schema(example = "1-10,12,40-")]
    pub pages: String,
    /// `graphics` or `all`.
    #[schema(example = "graphics")]
    pub ai_pages: String,
    /// `primary`, `fast` or `secondary`.
    #[schema(example = "primary")]
    pub tier: String,
    /// `openai` or `anthropic`.
    #[schema(example = "openai")]
    pub engine: String,
    #[schema(example = "5m")]
    pub deadline: String,
    /// `low`, `normal`, `high`, `critical` or `urgent`.
    #[schema(example = "normal")]
    pub priority: String,
}

impl From<&domain::job::JobOptions> for Options {
    fn from(options: &domain::job::JobOptions) -> Self {
        let deadline = SignedDuration::try_from(options.job_timeout()).unwrap_or(SignedDuration::MAX);
        Self {
            pages: options.pages.to_string(),
            ai_pages: name(options.ai_pages),
            tier: options.tier.to_string(),
            engine: options.engine.to_string(),
            deadline: format!("{deadline:#}"),
            priority: name(options.priority).to_lowercase(),
        }
    }
}

/// What was found in the document.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pages {
    /// Pages of the document.
    pub document: u32,
    /// Those of the job: each gets text.
    pub selected: u32,
    pub text_only: u32,
    pub has_graphics: u32,
    pub unreadable: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Plan {
    /// One more with each modification.
    pub version: u32,
    pub tier: String,
    pub engine: String,
    pub ai_pages: u32,
    pub image_pages: u32,
    pub estimated_credits: u32,
    /// Millionths of a US dollar.
    pub estimated_cost_micro_usd: u64,
    /// Why a person has to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Why no page goes to AI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_ai_because: Option<String>,
}

/// Figures of a result.
#[derive(Debug, Serialize, ToSchema)]
pub struct Metadata {
    pub total_pages: u32,
    /// Pages that were to be read by AI.
    pub ai_pages: u32,
    pub pages_done: u32,
    pub pages_failed: u32,
    pub result_text_len: u64,
    pub ai_pages_succeeded: u32,
    pub mupdf_fallback_count: u32,
    /// The deadline came before every page was read.
    pub timeout_occurred: bool,
    pub cancelled: bool,
    /// Pages with no text from anybody.
    pub missing_pages: Vec<u32>,
    pub timeout_fallback_pages: Vec<u32>,
    pub final_ai_pages: u32,
    pub final_mupdf_pages: u32,
    pub final_timeout_fallback_pages: u32,
    pub credits: u32,
    /// Millionths of a US dollar.
    pub cost_micro_usd: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl From<ResultMetadata> for Metadata {
    fn from(from: ResultMetadata) -> Self {
        let numbers =
            |pages: Vec<domain::ids::PageNumber>| pages.into_iter().map(|page| page.get()).collect();
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
    /// From 1 on; one more with each healing.
    pub version: u32,
    /// Of the JSON form.
    pub sha256: String,
    pub metadata: Metadata,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Failure {
    #[schema(example = "password_needed")]
    pub code: String,
    #[schema(example = "the PDF is encrypted and no password was given")]
    pub reason: String,
}

impl From<domain::job::Failure> for Failure {
    fn from(failure: domain::job::Failure) -> Self {
        Self { code: failure.code, reason: failure.reason }
    }
}

/// Where to go from here.
#[derive(Debug, Serialize, ToSchema)]
pub struct Links {
    #[serde(rename = "self")]
    #[schema(example = "/v1/jobs/01kab2y7e9q4c0m8t5w3r6x1zd")]
    pub this: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// Present once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Present while there is something to cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
}

/// How to upload the document.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadLink {
    #[schema(example = "PUT")]
    pub method: String,
    pub url: String,
    /// To be sent with the upload as they are.
    pub headers: std::collections::BTreeMap<String, String>,
    pub expires_at: Timestamp,
}

impl UploadLink {
    pub fn new(link: uploads::UploadLink, expires_at: Timestamp) -> Self {
        let headers = link.headers.into_iter().collect();
        Self { method: link.method.to_owned(), url: link.url, headers, expires_at }
    }
}

/// One request: a document and what becomes of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job {
    #[schema(example = "01kab2y7e9q4c0m8t5w3r6x1zd")]
    pub id: String,
    pub status: Status,
    /// The state of the life cycle, such as `ACKED`, `PROPOSED` or `AUDITED`; absent before the
    /// document has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "AUDITED")]
    pub state: Option<String>,
    /// 0 to 100, which is the end, whatever end it is. In a listing absent while pages are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100, example = 100)]
    pub progress: Option<u8>,
    /// In words for people.
    #[schema(example = "every page has its text")]
    pub message: String,
    pub document: Document,
    pub options: Options,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The door it came through: `api`, `s3` or `cli`.
    #[schema(example = "api")]
    pub source: String,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the result is published, ready or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultInfo>,
    /// Why it failed or was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// How often it was started again.
    pub redrives: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Of the trace that its work is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Where the document is to be uploaded; only in the answer that begins an upload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadLink>,
    pub links: Links,
}

impl Job {
    pub fn at(self, progress: u8) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

/// An accepted document.
#[derive(Debug, Serialize, ToSchema)]
pub struct Submitted {
    #[serde(flatten)]
    pub job: Job,
    /// The same was asked before: this is that job.
    pub repeated: bool,
}

impl From<domain::job::Job> for Job {
    fn from(job: domain::job::Job) -> Self {
        let place = format!("/v1/jobs/{}", job.id);
        let status: Status = job.status().into();
        let progress = match job.state {
            State::Received | State::Acked => Some(0),
            _ if job.is_over() => Some(100),
            _ => None,
        };
        Self {
            links: Links {
                pages: Some(format!("{place}/pages")),
                events: Some(format!("{place}/events")),
                result: job.result.as_ref().map(|_| format!("{place}/result")),
                cancel: (!job.is_over() && job.halt.is_none()).then(|| format!("{place}/cancel")),
                this: place,
            },
            status,
            state: Some(job.state.to_string()),
            trace_id: Some(job.trace().trace_id()),
            progress,
            message: message(&job),
            document: Document {
                name: job.received.document.name,
                bytes: Some(job.received.document.bytes),
                sha256: Some(job.received.document.sha256),
            },
            options: Options::from(&job.received.options),
            user: job.received.user,
            source: job.received.source,
            created_at: job.received_at,
            started_at: job.acked_at,
            deadline: job.acked_at.map(|_| job.deadline),
            finished_at: job.finished_at,
            pages: job.survey.map(|survey| Pages {
                document: survey.document_pages,
                selected: survey.page_count(),
                text_only: survey.text_only,
                has_graphics: survey.has_graphics,
                unreadable: survey.unreadable,
            }),
            plan: job.plan.map(|plan| Plan {
                version: plan.version,
                tier: plan.tier.to_string(),
                engine: plan.engine.to_string(),
                ai_pages: plan.ai_pages,
                image_pages: plan.image_pages,
                estimated_credits: plan.estimated_credits,
                estimated_cost_micro_usd: plan.estimated_cost_micro_usd.0,
                approval: plan.approval,
                no_ai_because: plan.no_ai_because,
            }),
            result: job.result.map(|result| ResultInfo {
                version: result.version,
                sha256: result.sha256,
                metadata: result.metadata.into(),
            }),
            error: job.failure.map(Failure::from),
            redrives: job.redrives,
            correlation_id: Some(job.correlation_id.to_string()),
            upload: None,
            id: job.id.to_string(),
        }
    }
}

impl Job {
    /// An upload as a job to be.
    pub fn awaited(upload: Upload, now: Timestamp) -> Self {
        let (status, message) = match &upload.failure {
            Some(failure) => (Status::Failed, failure.reason.clone()),
            None if now < upload.expires_at => (Status::AwaitingUpload, "waits for its document".to_owned()),
            None => {
                (Status::AwaitingUpload, "no document came while the link was good; begin anew".to_owned())
            }
        };
        let place = format!("/v1/jobs/{}", upload.id);
        Self {
            links: Links { this: place, pages: None, events: None, result: None, cancel: None },
            status,
            state: None,
            progress: Some(if status == Status::Failed { 100 } else { 0 }),
            message,
            document: Document { name: upload.name, bytes: None, sha256: None },
            options: Options::from(&upload.options),
            user: upload.user,
            source: upload.source,
            created_at: upload.created_at,
            started_at: None,
            deadline: None,
            finished_at: None,
            pages: None,
            plan: None,
            result: None,
            error: upload.failure.map(Failure::from),
            redrives: 0,
            correlation_id: None,
            trace_id: None,
            upload: None,
            id: upload.id,
        }
    }
}

fn message(job: &domain::job::Job) -> String {
    use domain::job::Status;
    let reason =
        || job.failure.as_ref().map_or_else(|| "it ended".to_owned(), |failure| failure.reason.clone());
    let metadata = job.result.as_ref().map(|result| &result.metadata);
    match job.status() {
        Status::Queued => "waits for its turn".into(),
        Status::AwaitingApproval => {
            let why = job.plan.as_ref().and_then(|plan| plan.approval.clone()).unwrap_or_default();
            format!("waits for a person to agree: {why}")
        }
        Status::Processing => match &job.plan {
            Some(plan) => format!("being read: {} for AI", pages(plan.ai_pages)),
            None => "being planned".into(),
        },
        Status::Failed | Status::Rejected => reason(),
        Status::Cancelled => match metadata {
            Some(metadata) => {
                format!("cancelled; what was there of {} is published", pages(metadata.total_pages))
            }
            None => "cancelled before the document was opened".into(),
        },
        Status::Success => match metadata {
            Some(metadata) if metadata.timeout_occurred => {
                "the deadline came first; every page has the text that was there".into()
            }
            Some(metadata) if metadata.pages_failed > 0 => {
                format!("{} kept MuPDF's text where an AI's was planned", pages(metadata.pages_failed))
            }
            _ => "every page has its text".into(),
        },
    }
}

fn pages(count: u32) -> String {
    format!("{count} {}", if count == 1 { "page" } else { "pages" })
}
