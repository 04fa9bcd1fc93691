use std::collections::BTreeMap;

use everypage_core::{
    admission::Ahead,
    document::Reason,
    job::{self, RequestSource, State},
    providers::target::{Provider, Tier},
    settings::{AiPages, Cost},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Priority, ResultInfo, UploadLink, message::message};

/// The status of a job.
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

impl From<job::Status> for Status {
    fn from(status: job::Status) -> Self {
        use job::Status as Core;
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

/// The document of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Document {
    /// The name of the document.
    #[schema(example = "harbour-report-2026.pdf")]
    pub name: String,
    /// Absent until the document is uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 48211)]
    pub bytes: Option<u64>,
    /// Absent until the document is uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The options of a job, under the names of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct Options {
    /// Selected pages.
    #[schema(example = "1-10,12,40-")]
    pub pages: String,
    pub ai_pages: AiPages,
    pub tier: Tier,
    /// The provider that is called first.
    pub provider: Provider,
    /// The caller's own order of models; absent if the settings decide.
    #[schema(example = "openai:gpt-5.4,gemini:gemini-3.8-flash")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<String>,
    pub cost: Cost,
    /// What the job's model calls may cost, in US dollars; absent if unlimited.
    #[schema(example = 2.5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// The time to the result: from acceptance if the caller set it, else from the start of the work.
    #[schema(example = "5m")]
    pub deadline: String,
    /// How long a page is retried: `deadline`, a time, or `0` for one round.
    #[schema(example = "deadline")]
    pub patience: String,
    pub priority: Priority,
}

impl From<&job::JobOptions> for Options {
    fn from(options: &job::JobOptions) -> Self {
        let deadline = SignedDuration::try_from(options.job_timeout()).unwrap_or(SignedDuration::MAX);
        Self {
            pages: options.pages.to_string(),
            ai_pages: options.ai_pages,
            tier: options.tier,
            provider: options.provider,
            failover: (!options.failover.is_empty()).then(|| options.failover.to_string()),
            cost: options.cost,
            budget_usd: options.budget_usd.map(|budget| budget.usd()),
            deadline: format!("{deadline:#}"),
            patience: options.patience.to_string(),
            priority: options.priority.into(),
        }
    }
}

/// The pages of the document, by class.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pages {
    /// All pages of the document.
    pub document: u32,
    /// Pages of the job: each ends with text.
    pub selected: u32,
    /// Selected pages whose text layer is enough.
    pub text_only: u32,
    /// Selected pages with graphics.
    pub has_graphics: u32,
    /// Selected pages that MuPDF can't read.
    pub unreadable: u32,
}

/// How the job is read: which pages go to which model, and the estimated cost.
#[derive(Debug, Serialize, ToSchema)]
pub struct Plan {
    /// Counts from 1; each modification makes the next.
    pub version: u32,
    /// The model that is called first.
    pub tier: Tier,
    /// The provider that is called first.
    pub provider: Provider,
    /// Pages that go to AI.
    pub ai_pages: u32,
    /// Pages that go to AI with an image.
    pub image_pages: u32,
    /// Why pages go to AI: how many for each reason of their classification. Those of `text` were requested
    /// (`ai_pages=all`), or our own reading of them has a low confidence (`ai_pages=unsure`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false, example = json!({"scanned": 3, "image": 5}))]
    pub reasons: BTreeMap<Reason, u32>,
    /// Credits that the job reserves.
    pub estimated_credits: u32,
    /// Millionths of a US dollar.
    pub estimated_cost_micro_usd: u64,
    /// Why the plan needs approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Why no page goes to AI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_ai_reason: Option<String>,
}

/// Why a job failed or was rejected.
#[derive(Debug, Serialize, ToSchema)]
pub struct Failure {
    /// The kind of failure, for programs.
    #[schema(example = "password_needed")]
    pub code: String,
    /// What happened, in words.
    #[schema(example = "the PDF is encrypted and no password was given")]
    pub reason: String,
}

impl From<job::Failure> for Failure {
    fn from(failure: job::Failure) -> Self {
        Self { code: failure.code, reason: failure.reason }
    }
}

/// The line of documents that wait for room.
#[derive(Debug, Serialize, ToSchema)]
pub struct InLine {
    /// Documents that are likely to be started before this one. Those of other tenants take turns with it.
    #[schema(example = 412)]
    pub ahead: u32,
    /// Whether there may be more: from 1,000 on they are not counted.
    pub or_more: bool,
}

/// Routes of the job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Links {
    /// The job.
    #[serde(rename = "self")]
    #[schema(example = "/v1/jobs/01kab2y7e9q4c0m8t5w3r6x1zd")]
    pub this: String,
    /// The pages of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// The events of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// Present once a result is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Present until the job ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
}

/// A document and its processing.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job {
    /// The id of the job.
    #[schema(example = "01kab2y7e9q4c0m8t5w3r6x1zd")]
    pub id: String,
    pub status: Status,
    /// Absent until the document is uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Percent; 100 when the job has ended, with whatever status. Absent in lists while pages are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100, example = 100)]
    pub progress: Option<u8>,
    /// The status in words.
    #[schema(example = "every page has its text")]
    pub message: String,
    /// What is ahead of a document that waits for room. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<InLine>,
    pub document: Document,
    pub options: Options,
    /// The user that submitted the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How the document was submitted.
    pub source: RequestSource,
    /// When the document was submitted.
    pub created_at: Timestamp,
    /// When work on the document started; absent while it waits for room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the result is published at the latest; absent while it waits for room and its time has not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Absent until the document is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    /// Absent until the document is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Absent until a result is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultInfo>,
    /// Why the job failed or was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// How often the job was redriven.
    pub redrives: u32,
    /// The correlation id of the job's events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The id of the job's trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Where to upload the document; only in the response that starts an upload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadLink>,
    pub links: Links,
}

impl Job {
    pub fn at(self, progress: u8) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// With what is ahead of it in line, if it waits.
    pub fn behind(self, ahead: Option<Ahead>) -> Self {
        let Some(ahead) = ahead else { return self };
        let queue = InLine { ahead: ahead.documents, or_more: ahead.or_more };
        Self { message: format!("{}; {ahead}", self.message), queue: Some(queue), ..self }
    }
}

/// An accepted document.
#[derive(Debug, Serialize, ToSchema)]
pub struct Submitted {
    #[serde(flatten)]
    pub job: Job,
    /// Whether this is the job of an earlier, identical request.
    pub repeated: bool,
}

impl From<job::Job> for Job {
    fn from(job: job::Job) -> Self {
        let place = format!("/v1/jobs/{}", job.id);
        let status: Status = job.status().into();
        let progress = match job.state {
            State::Received | State::Acked => Some(0),
            _ if job.is_over() => Some(100),
            _ => None,
        };
        let started_at =
            job.acked_at.filter(|_| !job.is_waiting()).map(|acked| job.admitted_at.unwrap_or(acked));
        let deadline = job.known_deadline();
        Self {
            links: Links {
                pages: Some(format!("{place}/pages")),
                events: Some(format!("{place}/events")),
                result: job.result.as_ref().map(|_| format!("{place}/result")),
                cancel: (!job.is_over() && job.halt.is_none()).then(|| format!("{place}/cancel")),
                this: place,
            },
            status,
            state: Some(job.state),
            trace_id: Some(job.trace().trace_id()),
            progress,
            message: message(&job),
            queue: None,
            document: Document {
                name: job.received.document.name,
                bytes: Some(job.received.document.bytes),
                sha256: Some(job.received.document.sha256),
            },
            options: Options::from(&job.received.options),
            user: job.received.user,
            source: job.received.source,
            created_at: job.received_at,
            started_at,
            deadline,
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
                tier: plan.tier,
                provider: plan.provider,
                ai_pages: plan.ai_pages,
                image_pages: plan.image_pages,
                reasons: plan.reasons,
                estimated_credits: plan.estimated_credits,
                estimated_cost_micro_usd: plan.estimated_cost_micro_usd.0,
                approval: plan.approval,
                no_ai_reason: plan.no_ai_reason,
            }),
            result: job.result.map(|result| ResultInfo {
                version: result.version,
                sha256: result.sha256,
                metadata: result.metadata,
            }),
            error: job.failure.map(Failure::from),
            redrives: job.redrives,
            correlation_id: Some(job.correlation_id.to_string()),
            upload: None,
            id: job.id.to_string(),
        }
    }
}
