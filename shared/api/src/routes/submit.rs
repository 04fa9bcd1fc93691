//! Submitting documents.

use axum::{
    Json,
    extract::{Query, Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_TYPE, LOCATION},
    },
    response::{IntoResponse, Response},
};
use everypage_core::{
    document::DocumentKind,
    intake::{
        announce,
        submit::{self, Submission},
    },
    job::{JobOptions, RequestSource, jobs},
    providers::target::{Provider, Tier},
    settings::{AiPages, Cost},
    tenants,
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    Api, Caller,
    auth::Known,
    problem::{self, Code, Problem},
    request::{self, RequestOptions, Spooled},
    shape::{self, UploadLink},
};

/// The name of a document without one.
fn default_name(kind: Option<DocumentKind>) -> String {
    format!("document.{}", kind.unwrap_or(DocumentKind::Pdf).extensions()[0])
}

/// Options of a job: in the query, in the fields of a form or in JSON.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes what is read field by field, to report every error")]
pub struct JobRequest {
    /// The name of the document.
    #[schema(example = "harbour-report-2026.pdf")]
    #[param(example = "harbour-report-2026.pdf")]
    name: Option<String>,
    /// Pages to read; all by default.
    #[schema(example = "1-10,12,40-")]
    #[param(example = "1-10,12,40-")]
    pages: Option<String>,
    /// Pages that go to AI.
    ai_pages: Option<AiPages>,
    /// The model that is called first.
    tier: Option<Tier>,
    /// The provider that is called first.
    provider: Option<Provider>,
    /// Models in the order in which they are called, as `PROVIDER:MODEL`, instead of `provider` and `tier`.
    #[schema(example = "openai:gpt-5.4,gemini:gemini-3.8-flash")]
    #[param(example = "openai:gpt-5.4,gemini:gemini-3.8-flash")]
    failover: Option<String>,
    /// `low` for the cheaper, slower tier of providers that have one, while the time left allows.
    cost: Option<Cost>,
    /// What the job's model calls may cost, in US dollars; pages beyond it keep their own text.
    #[schema(example = "2.50")]
    #[param(example = "2.50")]
    budget_usd: Option<String>,
    /// The time until the result is published at the latest.
    #[schema(example = "5m")]
    #[param(example = "5m")]
    deadline: Option<String>,
    /// How long a page is retried: `deadline`, a time, or `0` for one round.
    #[schema(example = "deadline")]
    #[param(example = "deadline")]
    patience: Option<String>,
    /// Higher ones go first.
    priority: Option<shape::Priority>,
    /// Whether to start a new job even if an identical request was made within 24 hours.
    force: Option<bool>,
}

/// A PDF or an image.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a body that is streamed")]
pub struct Pdf(Vec<u8>);

/// A form: the document, and each option as a field.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is read field by field")]
pub struct JobForm {
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Opens an encrypted document.
    password: Option<String>,
    #[schema(inline)]
    #[serde(flatten)]
    options: JobRequest,
}

/// A request for an upload link.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is read field by field")]
pub struct UploadRequest {
    /// Must be `true`.
    upload: bool,
    /// Opens an encrypted document.
    password: Option<String>,
    #[schema(inline)]
    #[serde(flatten)]
    options: JobRequest,
}

/// Submit a document
///
/// The document, a PDF or an image (PNG, JPEG, TIFF with any number of pages, WebP), is the body or the field
/// `file` of a form. For a large document, request an
/// upload link with JSON (`"upload": true`): the response has the link, and its `id` works in every other
/// route. A request with the same `Idempotency-Key`, or without one the same document with the same options
/// within 24 hours, gives the same job.
#[utoipa::path(post, path = "/v1/jobs", operation_id = "submit_job", tag = "jobs",
    params(
        JobRequest,
        ("Idempotency-Key" = Option<String>, Header, description = "Identifies the request: repeating it is safe"),
        ("Everypage-Password" = Option<String>, Header, description = "Opens an encrypted document, if the password is ASCII; otherwise send it in a form"),
        ("traceparent" = Option<String>, Header, description = "The caller's trace (W3C); the job's spans become part of it"),
    ),
    request_body(content((inline(Pdf) = "application/pdf"), (inline(Pdf) = "image/png"), (inline(Pdf) = "image/jpeg"), (inline(Pdf) = "image/tiff"), (inline(Pdf) = "image/webp"), (inline(Pdf) = "application/octet-stream"), (JobForm = "multipart/form-data"), (UploadRequest = "application/json"))),
    responses(
        (status = 202, description = "The job is stored", body = shape::Submitted, headers(("location" = String))),
        (status = 200, description = "The job of an earlier, identical request", body = shape::Submitted, headers(("location" = String))),
        (status = 201, description = "The upload link", body = shape::Job, headers(("location" = String))),
        (status = 413, description = "The document is too large", body = problem::Document, content_type = "application/problem+json"),
        (status = 415, description = "Not a PDF, an image, a form or JSON", body = problem::Document, content_type = "application/problem+json"),
        (status = 422, description = "Invalid options", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn submit(
    State(api): State<Api>,
    Known(caller): Known,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let settings = tenants::settings(&api.app.tenants, &caller.tenant).await?;
    let limit = settings.pdf.max_file_bytes;
    let mut requested = RequestOptions::read(&headers, &query);
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kind = DocumentKind::by_mime(&media_type);
    let file = match media_type.as_str() {
        _ if kind.is_some() || media_type == "application/octet-stream" => {
            // Before the document is received: a client with a bad option need not send all of it.
            requested = requested.checked()?;
            request::body(&api, limit, &headers, request.into_body()).await?
        }
        "multipart/form-data" => {
            let file = request::form(&api, limit, request, &mut requested).await?;
            requested = requested.checked()?;
            file.ok_or_else(|| Problem::invalid("file", "the form has no document in this field"))?
        }
        "application/json" => {
            let mut fields = request::object(request.into_body()).await?;
            if fields.remove("upload") != Some(true.into()) {
                let message = "must be true in JSON; or send the document as application/pdf or image/…";
                return Err(Problem::invalid("upload", message));
            }
            requested.set_all(fields);
            let requested = requested.checked()?;
            let options = requested.overrides.apply_to(JobOptions::from_settings(&settings));
            return start_upload(&api, caller, requested, options).await;
        }
        _ => {
            let detail = "send the document as application/pdf, image/png, image/jpeg, image/tiff, image/webp or \
                multipart/form-data, or request an upload link with application/json";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
    };
    let options = requested.overrides.apply_to(JobOptions::from_settings(&settings));
    requested.name.get_or_insert_with(|| default_name(kind));
    accept(&api, caller, requested, options, file).await
}

/// The caller's idempotency key, or a unique one where a new job is forced.
fn idempotency_key(api: &Api, requested: &RequestOptions) -> Option<String> {
    requested.idempotency_key.clone().or_else(|| requested.overrides.force.then(|| api.app.store.ids.fresh()))
}

async fn accept(
    api: &Api,
    caller: Caller,
    requested: RequestOptions,
    options: JobOptions,
    file: Spooled,
) -> Result<Response, Problem> {
    let submission = Submission {
        tenant: caller.tenant,
        user: Some(caller.user),
        source: RequestSource::Api,
        idempotency_key: idempotency_key(api, &requested),
        name: requested.name.unwrap_or_else(|| default_name(None)),
        file: file.path().to_owned(),
        password: requested.password,
        options,
        traceparent: requested.traceparent,
    };
    let submitted = submit::submit(&api.app.intake, submission).await?;
    let repeated = submitted.existed;
    let job = api.view(submitted.job).await?;
    let status = if repeated { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = [(LOCATION, job.links.this.clone())];
    Ok((status, location, Json(shape::Submitted { job, repeated })).into_response())
}

async fn start_upload(
    api: &Api,
    caller: Caller,
    requested: RequestOptions,
    options: JobOptions,
) -> Result<Response, Problem> {
    let Some(links) = &api.upload_links else {
        let detail =
            "this service has no upload links: send the document in the body, such as application/pdf";
        return Err(Problem::new(Code::UploadsNotAvailable, detail));
    };
    let announced = announce::UploadAnnouncement {
        tenant: caller.tenant,
        user: Some(caller.user),
        idempotency_key: idempotency_key(api, &requested),
        name: requested.name.unwrap_or_else(|| default_name(None)),
        options,
        password: requested.password,
        traceparent: requested.traceparent,
    };
    let upload = announce::announce(&api.app.intake, announced, api.upload_link_ttl).await?;
    if upload.is_over() {
        let job = match &upload.job {
            Some(job) => api.view(jobs::load(&api.app.store, job).await?.value).await?,
            None => shape::Job::awaited(upload, api.app.store.clock.now()),
        };
        let location = [(LOCATION, job.links.this.clone())];
        return Ok((StatusCode::OK, location, Json(shape::Submitted { job, repeated: true })).into_response());
    }
    let link = UploadLink::new(links.put(&upload.key, api.upload_link_ttl).await?, upload.expires_at);
    let job = shape::Job { upload: Some(link), ..shape::Job::awaited(upload, api.app.store.clock.now()) };
    let location = [(LOCATION, job.links.this.clone())];
    Ok((StatusCode::CREATED, location, Json(job)).into_response())
}
