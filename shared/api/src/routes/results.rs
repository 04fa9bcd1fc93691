use axum::{
    extract::{Path, Query, State},
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY},
    },
    response::{IntoResponse, Response},
};
use everypage_core::{
    app::App,
    document::TableStyle,
    event::Aggregate,
    events::trail,
    finish::{format::Make, produce, provisional::provisional},
    job::{Job, Status},
    keys::blob,
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Api, DOWNLOAD_LINK_TTL, MAX_RESPONSE,
    auth::Known,
    format::{self, Format},
    problem::{self, Code, Problem},
    range::IN_PARTS,
};

/// The name of the route in the OpenAPI document.
pub const OPERATION: &str = "get_job_result";

/// Set to `true` when the response is a provisional result.
const PROVISIONAL: HeaderName = HeaderName::from_static("everypage-result-provisional");

/// The version of the result in the response.
const VERSION: HeaderName = HeaderName::from_static("everypage-result-version");

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ResultParams {
    #[param(schema_with = format::schema)]
    format: Option<String>,
    #[param(schema_with = format::tables_schema)]
    tables: Option<String>,
    /// The version; without it, the latest.
    #[param(minimum = 1)]
    version: Option<u32>,
    /// Before a result is published, the whole document as it stands.
    provisional: Option<bool>,
}

/// Get the result: the text of every page
///
/// A version never changes once it is published: use its `ETag` with `If-None-Match`. A heal publishes a new
/// version, which is then the latest. A part of the bytes can be requested with `Range`, and `If-Range` with the
/// `ETag`.
///
/// With `provisional=true` the document can be had from the moment its text is read: each page from its best
/// source so far. The JSON format has `provisional: true` and the `status` of each page. Nothing is stored by
/// asking; once a result is published, the latest version is the response.
#[utoipa::path(get, path = "/v1/jobs/{id}/result", operation_id = OPERATION, tag = "jobs", params(("id" = String, Path, description = "The id of the job"), ResultParams),
    responses(
        (status = 200, description = "The result",
            headers(("etag" = String), ("everypage-result-version" = u32), ("everypage-result-provisional" = bool))),
        (status = 206, description = "The requested part of the result (`Range`)"),
        (status = 303, description = "The result is too large for a response: download it from `Location`, which is valid for five minutes",
            headers(("location" = String))),
        (status = 304, description = "The client has this version in this format"),
        (status = 409, description = "No result is published yet; with `provisional=true`: the text is not read yet", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn result(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(params): Query<ResultParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let format = requested_format(&params, &headers)?;
    let tables = requested_tables(&params, format)?;
    if matches!(format.make(), Make::FromSource) && !api.app.preparer.pdf.is_available() {
        let detail = format!(
            "this service makes no searchable PDFs; `everypage jobs result {} --format pdf` does, from the command line",
            id.chars().filter(char::is_ascii_alphanumeric).take(40).collect::<String>()
        );
        return Err(Problem::new(Code::NotAcceptable, detail));
    }
    let wants_provisional = params.provisional.unwrap_or_default();
    if wants_provisional && params.version.is_some() {
        return Err(Problem::invalid("version", "a provisional result has no version; send one of the two"));
    }
    let job = api.job(&caller, &id).await?;
    if job.content_removed_at.is_some() {
        return Err(gone(&job));
    }
    if wants_provisional && job.result.is_none() {
        return provisional_result(&api, &job, format, tables).await;
    }
    let (version, sha256) =
        published(&api.app, &job, params.version).await?.ok_or_else(|| none(&job, params.version))?;
    let style = if tables == TableStyle::default() { String::new() } else { format!("{tables}.") };
    let tag = format!("\"{sha256}.{style}{}\"", format.extension());
    let common = [
        (ETAG, tag.clone()),
        (VERSION, version.to_string()),
        (CACHE_CONTROL, "private, no-cache".to_owned()),
        (VARY, "accept, authorization".to_owned()),
    ];
    if matches_etag(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let bytes = produce::read(&api.app.preparer, &job, format, tables, Some(version)).await?;
    let bytes = bytes.ok_or_else(|| gone(&job))?;
    if let Some(downloads) = api.download_links.as_ref().filter(|_| bytes.len() > MAX_RESPONSE) {
        // A link leads to what is stored.
        if !format.is_stored(tables) {
            let detail = format!(
                "this format has {} bytes, the limit is {MAX_RESPONSE}; `everypage jobs result {} --format {format}{}` \
                 makes it from the command line",
                bytes.len(),
                job.id,
                if tables == TableStyle::default() { String::new() } else { format!(" --tables {tables}") },
            );
            return Err(Problem::new(Code::AnswerTooLarge, detail));
        }
        let key = blob::result(&job.id, job.redrives, version, format.extension());
        let link = downloads.link(&key, format.mime(), DOWNLOAD_LINK_TTL).await?;
        return Ok((StatusCode::SEE_OTHER, common, [(LOCATION, link)]).into_response());
    }
    Ok((common, [IN_PARTS], [(CONTENT_TYPE, format.mime())], bytes).into_response())
}

/// The document as it stands, in a response that no cache keeps.
async fn provisional_result(
    api: &Api,
    job: &Job,
    format: Format,
    tables: TableStyle,
) -> Result<Response, Problem> {
    let document = provisional(&api.app.store, api.app.blobs.as_ref(), job).await?;
    let document = document.ok_or_else(|| not_read(job))?;
    let bytes = produce::produce(&api.app.preparer, job, format, tables, &document).await?;
    // It is not stored, so there is nothing that a link could lead to.
    if api.download_links.is_some() && bytes.len() > MAX_RESPONSE {
        let detail = format!(
            "the provisional result has {} bytes, the limit is {MAX_RESPONSE}; get single pages from \
             /v1/jobs/{}/pages/{{page}}, or wait for the published result",
            bytes.len(),
            job.id
        );
        return Err(Problem::new(Code::AnswerTooLarge, detail));
    }
    let headers = [
        (PROVISIONAL, "true".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (VARY, "accept, authorization".to_owned()),
        (CONTENT_TYPE, format.mime().to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// Why there is no provisional result.
fn not_read(job: &Job) -> Problem {
    if job.is_over() {
        return none(job, None);
    }
    let detail =
        format!("the text of the document is not read yet: the job is {}; retry in 2 s", job.status());
    Problem::new(Code::ResultNotReady, detail).with_header("retry-after", "2")
}

/// The format of `?format=`, else the one that `Accept` prefers.
fn requested_format(params: &ResultParams, headers: &HeaderMap) -> Result<Format, Problem> {
    if let Some(name) = &params.format {
        return name.parse().map_err(|error: String| Problem::invalid("format", error));
    }
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if accept.is_empty() {
        return Ok(Format::Text);
    }
    format::negotiate(&accept.join(",")).ok_or_else(|| {
        let detail = format!("a result is available as {}", format::media_types());
        Problem::new(Code::NotAcceptable, detail)
    })
}

/// The style of `?tables=`, which the format must have.
fn requested_tables(params: &ResultParams, format: Format) -> Result<TableStyle, Problem> {
    let tables = params.tables.as_deref().map_or(Ok(TableStyle::default()), str::parse);
    let checked = tables.and_then(|tables: TableStyle| format.check_tables(tables).map(|()| tables));
    checked.map_err(|error| Problem::invalid("tables", error))
}

/// The requested version and the hash of its JSON format: from the job, or from its events for an older
/// one. `None` when it was never published.
async fn published(app: &App, job: &Job, version: Option<u32>) -> Result<Option<(u32, String)>, Problem> {
    let Some(latest) = &job.result else { return Ok(None) };
    let wanted = match version {
        Some(version) if version != latest.version => version,
        _ => return Ok(Some((latest.version, latest.sha256.clone()))),
    };
    let events = trail::read(&app.store, &Aggregate::Job(job.id.clone())).await?;
    Ok(events.iter().rev().find_map(|event| {
        let result = event.data.get("result").unwrap_or(&event.data);
        let version = result.get("version")?.as_u64()?;
        let sha256 = result.get("sha256")?.as_str()?;
        (version == u64::from(wanted)).then(|| (wanted, sha256.to_owned()))
    }))
}

/// The result was published and is not there any more.
fn gone(job: &Job) -> Problem {
    let when = job.content_removed_at.map(|at| format!(" on {at:.0}")).unwrap_or_default();
    let detail = format!(
        "the document and its results were removed{when}, as DATA_RETENTION or a person decided; the events of \
         the job are still there. Submit the document again to read it again"
    );
    Problem::new(Code::ContentRemoved, detail)
}

fn none(job: &Job, version: Option<u32>) -> Problem {
    match (version, &job.result, &job.failure) {
        (Some(version), Some(result), _) => {
            let latest = result.version;
            Problem::new(Code::NoResult, format!("there is no version {version}; the latest is {latest}"))
        }
        (_, _, Some(failure)) => {
            Problem::new(Code::NoResult, format!("the job has no result: {}", failure.reason))
        }
        _ if !job.is_over() => {
            let status: Status = job.status();
            let so_far = match job.survey {
                Some(_) => "; provisional=true gives the document as it stands",
                None => "",
            };
            Problem::new(Code::ResultNotReady, format!("the job has no result yet: it is {status}{so_far}"))
                .with_header("retry-after", "2")
        }
        _ => Problem::new(Code::NoResult, format!("the job has no result: it is {}", job.status())),
    }
}

/// Whether `If-None-Match` has this ETag.
pub fn matches_etag(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).map(str::trim).any(|known| {
        // Weak comparison: caches mark the tags of compressed responses as weak.
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}
