use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::StatusCode,
};
use everypage_core::{
    finish::{delete, heal},
    intake::{
        find::JobOrUpload,
        uploads::{self, Upload},
    },
    job::{self, cancel, jobs},
    settings::parse_duration,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    Api,
    auth::Known,
    cursor::ListParams,
    problem::Problem,
    request,
    shape::{Healing, Job, JobList, List, Status},
};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// The time that models have to heal a job, as on the command line.
const HEAL_DEADLINE: &str = "2m";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Only jobs with this status; `awaiting_upload` lists uploads without a document.
    #[param(inline)]
    status: Option<Status>,
    /// Only jobs whose id or document name contains this text, in any case.
    #[param(example = "report")]
    search: Option<String>,
}

impl Filter {
    fn matches(&self, status: Status, name: &str, id: &str) -> bool {
        let found = |text: &str| name.to_lowercase().contains(text) || id.contains(text);
        self.status.is_none_or(|wanted| wanted == status)
            && self.search.as_ref().is_none_or(|text| found(&text.trim().to_lowercase()))
    }
}

/// List the tenant's jobs, newest first
///
/// A response may have fewer items than `limit`, or none, and still have a `next`.
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(ListParams, Filter),
    responses((status = 200, description = "Up to 100 jobs, 20 by default", body = JobList)))]
pub async fn list(
    State(api): State<Api>,
    Known(caller): Known,
    Query(params): Query<ListParams>,
    Query(filter): Query<Filter>,
) -> Result<Json<JobList>, Problem> {
    let limit = params.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    if filter.status == Some(Status::AwaitingUpload) {
        let wanted = |upload: &Upload| filter.matches(Status::AwaitingUpload, &upload.name, &upload.id);
        let after = params.after("uploads")?;
        let page = uploads::list_page(&api.app.store, &caller.tenant, after, limit, wanted).await?;
        let now = api.app.store.clock.now();
        return Ok(Json(List::new("uploads", page, |upload| Job::awaited(upload, now))));
    }
    let after = params.after("jobs")?;
    let wanted =
        |job: &job::Job| filter.matches(job.status().into(), &job.received.document.name, job.id.as_str());
    let page = jobs::list_page(&api.app.store, &caller.tenant, after, limit, wanted).await?;
    Ok(Json(List::new("jobs", page, Job::from)))
}

/// Get a job
///
/// The id may be that of an upload: its status is `awaiting_upload` until the document is uploaded; then
/// the response is the job of that document.
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path, description = "The id of the job")),
    responses((status = 200, description = "The job in its current state", body = Job)))]
pub async fn show(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<Job>, Problem> {
    Ok(Json(match api.named(&caller, &id).await? {
        JobOrUpload::Job(job) => api.view(*job).await?,
        JobOrUpload::Upload(upload) => Job::awaited(*upload, api.app.store.clock.now()),
    }))
}

/// Delete a job that has ended
///
/// Deletes its document, images, text, results and events. This can't be undone.
#[utoipa::path(delete, path = "/v1/jobs/{id}", operation_id = "delete_job", tag = "jobs", params(("id" = String, Path, description = "The id of the job")),
    responses((status = 204, description = "The job is deleted")))]
pub async fn delete(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let job = api.job(&caller, &id).await?;
    delete::delete(&api.app.store, api.app.blobs.as_ref(), &job.id, &caller.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancel a job
///
/// The text available by then is published. Cancelling a job that has ended changes nothing.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path, description = "The id of the job")),
    responses(
        (status = 202, description = "The job stops", body = Job),
        (status = 200, description = "The job has ended", body = Job)))]
pub async fn cancel(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let job = api.job(&caller, &id).await?;
    let job =
        cancel::cancel(&api.app.store, api.app.flow.as_ref(), &api.app.interrupts, &job.id, &caller.user)
            .await?;
    let status = if job.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(api.view(job).await?)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HealRequest {
    /// The time that the models have for all pages together; `2m` by default.
    #[schema(example = "2m")]
    deadline: Option<String>,
}

/// Heal a job: read its fallback pages again
///
/// Pages that a model reads in time replace their fallback in a new version of the result.
#[utoipa::path(post, path = "/v1/jobs/{id}/heal", operation_id = "heal_job", tag = "jobs", params(("id" = String, Path, description = "The id of the job")),
    request_body = Option<HealRequest>,
    responses((status = 202, description = "The pages that are sent to the models", body = Healing)))]
pub async fn heal(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Healing>), Problem> {
    let request: HealRequest = request::json(&body)?;
    let text = request.deadline.as_deref().unwrap_or(HEAL_DEADLINE);
    let time = parse_duration(text)
        .map_err(|wanted| Problem::invalid("deadline", format!("{text:?} is not {wanted}")))?;
    let job = api.job(&caller, &id).await?;
    let sent = heal::send(&api.app.finisher, &job.id, time).await?;
    api.resume(&job.id);
    let healing = Healing {
        job: job.id.to_string(),
        sent: sent.into_iter().map(|page| page.get()).collect(),
        version: job.result.map_or(0, |result| result.version),
    };
    Ok((StatusCode::ACCEPTED, Json(healing)))
}
