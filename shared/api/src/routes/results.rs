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
    domain::{
        event::Aggregate,
        job::{Job, Status},
    },
    store::trail,
    usecases::result::{self, Form},
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Api, DOWNLOAD_TIME, MOST_CARRIED, accept,
    auth::Known,
    problem::{self, Problem},
};

/// Says which version was given.
const VERSION: HeaderName = HeaderName::from_static("everypage-result-version");

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// `text`, `markdown` or `json`; without it the header `Accept` decides, and then text.
    #[param(example = "markdown")]
    format: Option<String>,
    /// An older version; without it the latest.
    #[param(minimum = 1)]
    version: Option<u32>,
}

/// The text of every page
///
/// A version is never changed once it is published: its `ETag` is good for conditional requests
/// (`If-None-Match`). Who asks for the latest sees a healed version when there is one.
#[utoipa::path(get, path = "/v1/jobs/{id}/result", operation_id = "get_job_result", tag = "jobs", params(("id" = String, Path), Wanted),
    responses(
        (status = 200, description = "The result", content(
            (String = "text/plain"), (String = "text/markdown"), (Object = "application/json")),
            headers(("etag" = String), ("everypage-result-version" = u32))),
        (status = 303, description = "It is larger than this service can answer with: it is there, for five minutes",
            headers(("location" = String))),
        (status = 304, description = "The client has it already"),
        (status = 409, description = "There is none yet", body = problem::Document, content_type = "application/problem+json"),
    ))]
pub async fn result(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = form(&wanted, &headers)?;
    let job = api.job(&caller, &id).await?;
    let (version, sha256) =
        published(&api.app, &job, wanted.version).await?.ok_or_else(|| none(&job, wanted.version))?;
    let tag = format!("\"{sha256}.{}\"", form.extension());
    let common = [
        (ETAG, tag.clone()),
        (VERSION, version.to_string()),
        (CACHE_CONTROL, "private, no-cache".to_owned()),
        (VARY, "accept, authorization".to_owned()),
    ];
    if has_it(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let bytes = result::read(&api.app, &job, form, Some(version)).await?;
    let bytes = bytes.ok_or_else(|| none(&job, Some(version)))?;
    let media_type = match form {
        Form::Text => "text/plain; charset=utf-8",
        Form::Markdown => "text/markdown; charset=utf-8",
        Form::Json => "application/json",
    };
    if let Some(downloads) = api.downloads.as_ref().filter(|_| bytes.len() > MOST_CARRIED) {
        let link = downloads.link(&result::key(&job, version, form), media_type, DOWNLOAD_TIME).await?;
        return Ok((StatusCode::SEE_OTHER, common, [(LOCATION, link)]).into_response());
    }
    Ok((common, [(CONTENT_TYPE, media_type)], bytes).into_response())
}

fn form(wanted: &Wanted, headers: &HeaderMap) -> Result<Form, Problem> {
    if let Some(name) = &wanted.format {
        return name.parse().map_err(|error: String| Problem::mistake("format", error));
    }
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if accept.is_empty() {
        return Ok(Form::Text);
    }
    accept::best(&accept.join(",")).ok_or_else(|| {
        let detail = "a result is text/plain, text/markdown or application/json";
        Problem::new(&problem::NOT_ACCEPTABLE, detail)
    })
}

/// The version asked for and the hash of its JSON form: from the job, or from its trail if it is
/// an older one.
async fn published(app: &App, job: &Job, version: Option<u32>) -> Result<Option<(u32, String)>, Problem> {
    let Some(latest) = &job.result else { return Ok(None) };
    let wanted = match version {
        Some(version) if version != latest.version => version,
        _ => return Ok(Some((latest.version, latest.sha256.clone()))),
    };
    let events = trail::read(app, &Aggregate::Job(job.id.clone())).await?;
    Ok(events.iter().rev().find_map(|event| {
        let result = event.data.get("result").unwrap_or(&event.data);
        let version = result.get("version")?.as_u64()?;
        let sha256 = result.get("sha256")?.as_str()?;
        (version == u64::from(wanted)).then(|| (wanted, sha256.to_owned()))
    }))
}

fn none(job: &Job, version: Option<u32>) -> Problem {
    match (version, &job.result, &job.failure) {
        (Some(version), Some(result), _) => {
            let latest = result.version;
            Problem::new(
                &problem::NO_RESULT,
                format!("there is no version {version}; the latest is {latest}"),
            )
        }
        (_, _, Some(failure)) => {
            Problem::new(&problem::NO_RESULT, format!("there is none: {}", failure.reason))
        }
        _ if !job.is_over() => {
            let status: Status = job.status();
            Problem::new(&problem::NOT_READY, format!("there is none yet: the job is {status}"))
                .with_header("retry-after", "2")
        }
        _ => Problem::new(&problem::NO_RESULT, format!("there is none: the job is {}", job.status())),
    }
}

/// Does the client have what is under this tag?
pub fn has_it(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).map(str::trim).any(|known| {
        // Conditional reads compare weakly: caches mark tags so when they compress.
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}
