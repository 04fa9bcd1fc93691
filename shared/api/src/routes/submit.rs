//! A document comes in.

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
    domain::job::JobOptions,
    store::{jobs, tenants},
    usecases::{
        intake::{self, Submission},
        upload::{self, Announced},
    },
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    Api, Caller,
    auth::Known,
    problem::{self, Problem},
    shape::{self, UploadLink},
    spool::{self, Asked, Spooled},
};

/// What a document is called that has no name.
const NAMELESS: &str = "document.pdf";

/// Options of a job. They may stand in the address, in the fields of a form or in JSON.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes what is read field by field, so that every mistake is told")]
pub struct JobRequest {
    /// What people call the document.
    #[schema(example = "harbour-report-2026.pdf")]
    #[param(example = "harbour-report-2026.pdf")]
    name: Option<String>,
    /// Pages to read; all unless said otherwise.
    #[schema(example = "1-10,12,40-")]
    #[param(example = "1-10,12,40-")]
    pages: Option<String>,
    /// Pages that go to AI: `graphics` (those that need eyes) or `all`.
    #[schema(example = "graphics")]
    #[param(example = "graphics")]
    ai_pages: Option<String>,
    /// Model that is asked first: `primary`, `fast` or `secondary`.
    #[schema(example = "primary")]
    #[param(example = "primary")]
    tier: Option<String>,
    /// Engine that is asked first: `openai` or `anthropic`.
    #[schema(example = "openai")]
    #[param(example = "openai")]
    engine: Option<String>,
    /// When the result is published, ready or not.
    #[schema(example = "5m")]
    #[param(example = "5m")]
    deadline: Option<String>,
    /// `low`, `normal`, `high`, `critical` or `urgent`.
    #[schema(example = "normal")]
    #[param(example = "normal")]
    priority: Option<String>,
    /// Start anew even if the same was asked within 24 hours.
    again: Option<bool>,
}

/// A PDF.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a body that is streamed")]
pub struct Pdf(Vec<u8>);

/// A form: the document, and options as fields of their own.
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

/// A document that will be uploaded past the API.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is read field by field")]
pub struct UploadRequest {
    /// `true`.
    upload: bool,
    /// Opens an encrypted document.
    password: Option<String>,
    #[schema(inline)]
    #[serde(flatten)]
    options: JobRequest,
}

/// Have a document read
///
/// The PDF is the body (`application/pdf`) or the field `file` of a form. For large documents ask
/// for a link with JSON (`"upload": true`): the answer says where to upload it, and its `id` is good
/// for every other route. The same `Idempotency-Key`, or without one the same document with the same
/// options within 24 hours, gives the same job.
#[utoipa::path(post, path = "/v1/jobs", operation_id = "submit_job", tag = "jobs",
    params(
        JobRequest,
        ("Idempotency-Key" = Option<String>, Header, description = "The caller's own name for the request"),
        ("Everypage-Password" = Option<String>, Header, description = "Opens an encrypted document, where the password is plain ASCII; otherwise send a form"),
        ("traceparent" = Option<String>, Header, description = "Where the caller's own trace is (W3C); the job's spans go on from there"),
    ),
    request_body(content((inline(Pdf) = "application/pdf"), (JobForm = "multipart/form-data"), (UploadRequest = "application/json"))),
    responses(
        (status = 202, description = "The job is durable", body = shape::Submitted, headers(("location" = String))),
        (status = 200, description = "The same was asked before", body = shape::Submitted, headers(("location" = String))),
        (status = 201, description = "The document may be uploaded", body = shape::Job, headers(("location" = String))),
        (status = 413, description = "The document is too large", body = problem::Document, content_type = "application/problem+json"),
        (status = 415, description = "Neither a PDF, a form nor JSON", body = problem::Document, content_type = "application/problem+json"),
        (status = 422, description = "Something that was asked for can't be used", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn submit(
    State(api): State<Api>,
    Known(caller): Known,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let settings = tenants::settings(&api.app, &caller.tenant).await?;
    let limit = settings.pdf.max_file_bytes;
    let mut asked = Asked::read(&headers, &query);
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let file = match media_type.as_str() {
        "application/pdf" | "application/octet-stream" => {
            // Before the document is read: who is told soon need not send it all.
            asked = asked.checked()?;
            spool::body(&api, limit, &headers, request.into_body()).await?
        }
        "multipart/form-data" => {
            let file = spool::form(&api, limit, request, &mut asked).await?;
            asked = asked.checked()?;
            file.ok_or_else(|| Problem::mistake("file", "the form has no document in a field of this name"))?
        }
        "application/json" => {
            let mut fields = spool::json(request.into_body()).await?;
            if fields.remove("upload") != Some(true.into()) {
                let message = "JSON asks for an upload: say true, or send the PDF as application/pdf";
                return Err(Problem::mistake("upload", message));
            }
            spool::take_json(&mut asked, fields);
            let asked = asked.checked()?;
            let options = asked.wishes.over(settings.default_options());
            return announce(&api, caller, asked, options).await;
        }
        _ => {
            let detail = "send the document as application/pdf or multipart/form-data, \
                or ask for an upload with application/json";
            return Err(Problem::new(&problem::UNSUPPORTED_MEDIA_TYPE, detail));
        }
    };
    let options = asked.wishes.over(settings.default_options());
    accept(&api, caller, asked, options, file).await
}

/// The caller's own name for the request, or one of a kind for who wants it done anew.
fn request_name(api: &Api, asked: &Asked) -> Option<String> {
    asked.idempotency_key.clone().or_else(|| asked.wishes.again.then(|| api.app.ids.fresh()))
}

async fn accept(
    api: &Api,
    caller: Caller,
    asked: Asked,
    options: JobOptions,
    file: Spooled,
) -> Result<Response, Problem> {
    let submission = Submission {
        tenant: caller.tenant,
        user: Some(caller.user),
        source: "api".into(),
        idempotency_key: request_name(api, &asked),
        name: asked.name.unwrap_or_else(|| NAMELESS.to_owned()),
        file: file.path().to_owned(),
        password: asked.password,
        options,
        traceparent: asked.traceparent,
    };
    let submitted = intake::submit(&api.app, submission).await?;
    let repeated = submitted.existed;
    let job = api.view(submitted.job).await?;
    let status = if repeated { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = [(LOCATION, job.links.this.clone())];
    Ok((status, location, Json(shape::Submitted { job, repeated })).into_response())
}

async fn announce(api: &Api, caller: Caller, asked: Asked, options: JobOptions) -> Result<Response, Problem> {
    let Some(links) = &api.links else {
        let detail =
            "this service takes documents in the request's body only: send the PDF as application/pdf";
        return Err(Problem::new(&problem::NO_UPLOADS, detail));
    };
    let announced = Announced {
        tenant: caller.tenant,
        user: Some(caller.user),
        idempotency_key: request_name(api, &asked),
        name: asked.name.unwrap_or_else(|| NAMELESS.to_owned()),
        options,
        password: asked.password,
        traceparent: asked.traceparent,
    };
    let upload = upload::begin(&api.app, announced, api.link_time).await?;
    if upload.is_over() {
        let job = match &upload.job {
            Some(job) => api.view(jobs::load(&api.app, job).await?.value).await?,
            None => shape::Job::awaited(upload, api.app.clock.now()),
        };
        let location = [(LOCATION, job.links.this.clone())];
        return Ok((StatusCode::OK, location, Json(shape::Submitted { job, repeated: true })).into_response());
    }
    let link = UploadLink::new(links.put(&upload.key, api.link_time).await?, upload.expires_at);
    let job = shape::Job { upload: Some(link), ..shape::Job::awaited(upload, api.app.clock.now()) };
    let location = [(LOCATION, job.links.this.clone())];
    Ok((StatusCode::CREATED, location, Json(job)).into_response())
}
