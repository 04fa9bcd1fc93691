//! The tools.

use std::{path::Path, time::Duration};

use everypage_core::{
    finish::provisional::count_pages,
    intake::{options::OptionOverrides, submit::Submission},
    job::{Job, JobOptions, RequestSource, jobs},
    secret::Secret,
    tenants,
    time::after,
};
use rmcp::{
    Json, Peer, RoleServer,
    handler::server::wrapper::Parameters,
    model::{ProgressNotificationParam, RequestMetaObject},
    schemars::{self, JsonSchema},
    tool, tool_router,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    McpServer,
    excerpt::{PageText, Place, excerpt},
    search::{Hit, search},
};
use crate::{backend::Request, find, page_counts::JobPages, problem::Problem};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Clients commonly wait 60 s for an answer.
const DEFAULT_WAIT: u64 = 45;
const MAX_WAIT: u64 = 24 * 3600;
/// Characters of text in an answer: about 6,000 tokens.
const DEFAULT_CHARS: usize = 20_000;
const MAX_CHARS: usize = 100_000;
const DEFAULT_LIST: usize = 20;
const MAX_LIST: usize = 100;
/// Jobs that a search without a job looks through.
const SEARCHED_JOBS: usize = 50;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadDocument {
    /// Path of the file on this machine, or with a stack also `s3://BUCKET/KEY`.
    path: String,
    /// Pages to read, such as `1-10,12,40-`; all by default.
    pages: Option<String>,
    /// Pages that go to a vision model: `graphics`, `unsure` or `all`.
    ai_pages: Option<String>,
    /// The model that is called first: `primary`, `fast` or `secondary`.
    tier: Option<String>,
    /// Models in the order in which they are called, such as `openai:gpt-5.4,gemini:gemini-3.8-flash`.
    failover: Option<String>,
    /// `standard`, or `low`: cheaper and slower, while the time left allows.
    cost: Option<String>,
    /// What the model calls may cost, in US dollars; pages beyond it keep their own text.
    budget_usd: Option<f64>,
    /// When the result is published at the latest, such as `5m`.
    deadline: Option<String>,
    /// How long a page is tried again: `deadline`, a time such as `90s`, or `0` for one round.
    patience: Option<String>,
    /// Opens an encrypted document.
    password: Option<String>,
    /// Read the document again, even if it was read with the same options within 24 hours.
    #[serde(default)]
    force: bool,
    /// How long to wait for the result; 45 by default. The job continues after that.
    wait_seconds: Option<u64>,
    /// Characters of text to return; 20,000 by default, 100,000 at most.
    max_chars: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadPages {
    /// The id of the job.
    job: String,
    /// The number of the first page; 1 by default.
    page: Option<u32>,
    /// Characters of that page to skip: `offset` of `next`.
    #[serde(default)]
    offset: usize,
    /// Characters of text to return; 20,000 by default, 100,000 at most.
    max_chars: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadPage {
    /// The id of the job.
    job: String,
    /// The number of the page in the document.
    page: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Search {
    /// The words, in this order; upper and lower case are the same.
    query: String,
    /// The id of a job; without it, the newest 50 jobs.
    job: Option<String>,
    /// With a job: only pages from this one on.
    from_page: Option<u32>,
    /// Pages to return; 20 by default, 100 at most.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobParam {
    /// The id of the job.
    job: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListJobs {
    /// Jobs to return; 20 by default, 100 at most.
    limit: Option<usize>,
    /// `next` of the previous answer.
    cursor: Option<String>,
    /// Only jobs whose id or document name contains this text.
    search: Option<String>,
}

/// A document and its processing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobAnswer {
    /// The id of the job.
    job: String,
    /// The name of the document.
    document: String,
    /// `queued`, `processing`, `awaiting_approval`, `success`, `failed`, `rejected` or `cancelled`.
    status: String,
    /// What happens, or why it failed.
    message: String,
    /// Pages of the job, once the document is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_pages: Option<u32>,
    /// Pages with their final text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages_done: Option<usize>,
    /// When the document was submitted.
    created_at: String,
    /// When the result is published at the latest; absent while the document waits for room.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
}

/// A part of a document's text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextAnswer {
    #[serde(flatten)]
    job: JobAnswer,
    /// Whether pages may still change, because the job runs.
    provisional: bool,
    /// The text, page by page.
    pages: Vec<PageText>,
    /// Where `read_pages` continues; absent at the end of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Place>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchAnswer {
    /// The pages that have the words.
    hits: Vec<Hit>,
    /// Whether there are more than these.
    more: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobsAnswer {
    /// Newest first.
    jobs: Vec<JobAnswer>,
    /// `cursor` of the next call; absent at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Why there is no answer, in words for the model.
fn words(problem: impl Into<Problem>) -> String {
    problem.into().to_string()
}

fn bounded(wanted: Option<usize>, default: usize, max: usize) -> usize {
    wanted.unwrap_or(default).clamp(1, max)
}

#[tool_router(vis = "pub(super)")]
impl McpServer {
    /// Read a PDF or another document, of this machine or in S3, and return the start of its text as Markdown.
    #[tool(annotations(read_only_hint = false, open_world_hint = true))]
    async fn read_document(
        &self,
        Parameters(request): Parameters<ReadDocument>,
        meta: RequestMetaObject,
        client: Peer<RoleServer>,
        cancel: CancellationToken,
    ) -> Result<Json<TextAnswer>, String> {
        let max_chars = bounded(request.max_chars, DEFAULT_CHARS, MAX_CHARS);
        let wait = Duration::from_secs(request.wait_seconds.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT));
        let limit = after(self.backend.app().store.clock.now(), wait);
        let submitted = self.submit(request, &cancel).await.map_err(words)?;
        let job = loop {
            let job = jobs::load(&self.backend.app().store, &submitted.id).await.map_err(words)?.value;
            if job.is_over() || self.backend.app().store.clock.now() >= limit || cancel.is_cancelled() {
                break job;
            }
            if let Some(token) = meta.get_progress_token() {
                let (done, total, message) = self.progress(&job).await.map_err(words)?;
                let progress = ProgressNotificationParam::new(token, done).with_message(message);
                let progress = if total > 0.0 { progress.with_total(total) } else { progress };
                // A client that does not listen is no reason to stop.
                let _ = client.notify_progress(progress).await;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = self.backend.app().store.clock.sleep(POLL_INTERVAL) => {}
            }
        };
        self.text(job, Place { page: 1, offset: 0 }, max_chars).await
    }

    /// Return text of a document that was read, from a page on; continue at `next` for the rest.
    #[tool(annotations(read_only_hint = true))]
    async fn read_pages(
        &self,
        Parameters(request): Parameters<ReadPages>,
    ) -> Result<Json<TextAnswer>, String> {
        let job = find::job(self.backend.app(), &request.job).await.map_err(words)?;
        let from = Place { page: request.page.unwrap_or(1), offset: request.offset };
        self.text(job, from, bounded(request.max_chars, DEFAULT_CHARS, MAX_CHARS)).await
    }

    /// Return the text of one page of a document that was read.
    #[tool(annotations(read_only_hint = true))]
    async fn read_page(&self, Parameters(request): Parameters<ReadPage>) -> Result<Json<TextAnswer>, String> {
        let job = find::job(self.backend.app(), &request.job).await.map_err(words)?;
        let Json(mut answer) = self.text(job, Place { page: request.page, offset: 0 }, MAX_CHARS).await?;
        answer.pages.retain(|page| page.page == request.page);
        if answer.pages.is_empty() {
            let total = answer.job.total_pages.unwrap_or_default();
            return Err(format!("there is no page {} among the {total} pages of the job", request.page));
        }
        // Set only where this page is too long for one answer.
        answer.next = answer.next.filter(|next| next.page == request.page);
        Ok(Json(answer))
    }

    /// Find words in documents that were read; returns the pages that have them, with the text around.
    #[tool(annotations(read_only_hint = true))]
    async fn search(&self, Parameters(request): Parameters<Search>) -> Result<Json<SearchAnswer>, String> {
        let app = self.backend.app();
        let limit = bounded(request.limit, DEFAULT_LIST, MAX_LIST);
        let jobs = match &request.job {
            Some(job) => vec![find::job(app, job).await.map_err(words)?],
            None => {
                let has_text = |job: &Job| job.survey.is_some();
                let tenant = find::tenant(&app.settings);
                let page = jobs::list_page(&app.store, &tenant, None, SEARCHED_JOBS, has_text).await;
                page.map_err(words)?.items
            }
        };
        let first = request.from_page.filter(|_| request.job.is_some()).unwrap_or(1);
        let (mut hits, mut more) = (Vec::new(), false);
        'jobs: for job in jobs {
            let Some(document) = self.document(&job).await.map_err(words)? else { continue };
            for page in document.pages.iter().filter(|page| page.page.get() >= first) {
                let Some(hit) = search(job.id.as_str(), &document.document, page, &request.query) else {
                    continue;
                };
                if hits.len() == limit {
                    more = true;
                    break 'jobs;
                }
                hits.push(hit);
            }
        }
        Ok(Json(SearchAnswer { hits, more }))
    }

    /// Return the status of a job: what happens, how many pages are done, why it failed.
    #[tool(annotations(read_only_hint = true))]
    async fn job_status(&self, Parameters(request): Parameters<JobParam>) -> Result<Json<JobAnswer>, String> {
        let job = find::job(self.backend.app(), &request.job).await.map_err(words)?;
        self.describe(&job).await.map(Json).map_err(words)
    }

    /// List the documents that were submitted, newest first.
    #[tool(annotations(read_only_hint = true))]
    async fn list_jobs(&self, Parameters(request): Parameters<ListJobs>) -> Result<Json<JobsAnswer>, String> {
        let app = self.backend.app();
        let limit = bounded(request.limit, DEFAULT_LIST, MAX_LIST);
        let text = request.search.unwrap_or_default().trim().to_lowercase();
        let wanted = |job: &Job| {
            job.received.document.name.to_lowercase().contains(&text) || job.id.as_str().contains(&text)
        };
        let tenant = find::tenant(&app.settings);
        let page = jobs::list_page(&app.store, &tenant, request.cursor, limit, wanted).await;
        let page = page.map_err(words)?;
        let mut jobs = Vec::with_capacity(page.items.len());
        for job in &page.items {
            jobs.push(self.describe(job).await.map_err(words)?);
        }
        Ok(Json(JobsAnswer { jobs, next: page.next }))
    }
}

impl McpServer {
    async fn submit(&self, request: ReadDocument, cancel: &CancellationToken) -> Result<Job, Problem> {
        let mut overrides = OptionOverrides { force: request.force, ..OptionOverrides::default() };
        let budget = request.budget_usd.map(|budget| budget.to_string());
        let options = [
            ("pages", &request.pages),
            ("ai_pages", &request.ai_pages),
            ("tier", &request.tier),
            ("failover", &request.failover),
            ("cost", &request.cost),
            ("budget_usd", &budget),
            ("deadline", &request.deadline),
            ("patience", &request.patience),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                overrides.set(name, value).map_err(|error| Problem::Usage(error.to_string()))?;
            }
        }
        let file = Path::new(&request.path);
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let app = self.backend.app();
        let tenant = find::tenant(&app.settings);
        let settings = tenants::settings(&app.tenants, &tenant).await?;
        let submission = Submission {
            tenant,
            user: None,
            source: RequestSource::Mcp,
            name,
            file: file.to_owned(),
            password: request.password.filter(|password| !password.is_empty()).map(Secret::new),
            options: overrides.apply_to(JobOptions::from_settings(&settings)),
            traceparent: None,
            idempotency_key: overrides.force.then(|| app.store.ids.fresh()),
        };
        let accepted = self.backend.accept(Request { submission, overrides }, cancel).await;
        Ok(accepted.map_err(|problem| Problem::Failed(format!("{}: {problem}", request.path)))?.job)
    }

    async fn text(&self, job: Job, from: Place, max_chars: usize) -> Result<Json<TextAnswer>, String> {
        let document = self.document(&job).await.map_err(words)?;
        let described = self.describe(&job).await.map_err(words)?;
        let Some(document) = document else {
            return match job.is_over() {
                true => Err(format!("{}: {}: {}", described.document, described.status, described.message)),
                false => {
                    Ok(Json(TextAnswer { job: described, provisional: true, pages: vec![], next: None }))
                }
            };
        };
        let (pages, next) = excerpt(&document.pages, from, max_chars);
        Ok(Json(TextAnswer { job: described, provisional: document.provisional, pages, next }))
    }

    async fn describe(&self, job: &Job) -> Result<JobAnswer, Problem> {
        let (done, _, message) = self.progress(job).await?;
        let total_pages = job.survey.as_ref().map(|survey| survey.page_count());
        Ok(JobAnswer {
            job: job.id.to_string(),
            document: job.received.document.name.clone(),
            status: job.status().to_string(),
            message,
            pages_done: total_pages.map(|_| done as usize),
            total_pages,
            created_at: job.received_at.to_string(),
            deadline: job.known_deadline().map(|deadline| deadline.to_string()),
        })
    }

    /// Pages that are done, all pages, and both in words.
    async fn progress(&self, job: &Job) -> Result<(f64, f64, String), Problem> {
        let total = job.survey.as_ref().map_or(0, |survey| survey.page_count());
        if let Some(failure) = &job.failure {
            return Ok((0.0, total.into(), failure.reason.clone()));
        }
        if job.is_over() {
            return Ok((total.into(), total.into(), format!("{total} of {total} pages done")));
        }
        let store = &self.backend.app().store;
        if job.is_waiting() {
            let ahead = self.backend.app().admission.ahead(job).await?;
            return Ok((
                0.0,
                0.0,
                ahead.map_or_else(|| "queued".to_owned(), |ahead| format!("queued; {ahead}")),
            ));
        }
        Ok(match JobPages::new(job, count_pages(store, job).await?) {
            Some(pages) => (pages.done as f64, pages.total as f64, pages.line(store.clock.now())),
            None => (0.0, 0.0, "opening the document".to_owned()),
        })
    }
}
