use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::StatusCode,
};
use everypage_core::{
    config::parse_duration,
    domain,
    store::{listing, uploads::Upload},
    usecases::{cancel, delete, heal, upload::Named},
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    Api,
    auth::Known,
    cursor::{self, Place},
    problem::{self, Problem},
    shape::{Healing, Job, Piece, Status},
};

const USUAL: usize = 20;
const MOST: usize = 100;

/// How long the models may take to heal a job, as on the command line.
const HEALING_TIME: &str = "2m";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Only jobs with this status; `awaiting_upload` gives uploads whose document has not come.
    #[param(inline)]
    status: Option<Status>,
    /// Only jobs whose document's name or own id holds this, in whatever case.
    #[param(example = "report")]
    search: Option<String>,
}

impl Filter {
    fn holds_for(&self, status: Status, name: &str, id: &str) -> bool {
        let found = |text: &str| name.to_lowercase().contains(text) || id.contains(text);
        self.status.is_none_or(|wanted| wanted == status)
            && self.search.as_ref().is_none_or(|text| found(&text.trim().to_lowercase()))
    }
}

/// The tenant's jobs, newest first
///
/// A piece may hold fewer jobs than asked for, or none, and still have a `next`.
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(Place, Filter),
    responses((status = 200, description = "Up to 100 jobs, 20 unless asked otherwise", body = Piece<Job>)))]
pub async fn list(
    State(api): State<Api>,
    Known(caller): Known,
    Query(place): Query<Place>,
    Query(filter): Query<Filter>,
) -> Result<Json<Piece<Job>>, Problem> {
    let limit = place.limit(USUAL, MOST)?;
    if filter.status == Some(Status::AwaitingUpload) {
        let wanted = |upload: &Upload| filter.holds_for(Status::AwaitingUpload, &upload.name, &upload.id);
        let after = place.after("uploads")?;
        let piece = listing::uploads(&api.app, &caller.tenant, after, limit, wanted).await?;
        let now = api.app.clock.now();
        let items = piece.items.into_iter().map(|upload| Job::awaited(upload, now)).collect();
        return Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("uploads", &next)) }));
    }
    let after = place.after("jobs")?;
    let wanted = |job: &domain::job::Job| {
        filter.holds_for(job.status().into(), &job.received.document.name, job.id.as_str())
    };
    let piece = listing::jobs(&api.app, &caller.tenant, after, limit, wanted).await?;
    let items = piece.items.into_iter().map(Job::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("jobs", &next)) }))
}

/// One job
///
/// Also answers to the id of an upload: `awaiting_upload` until the document has come, from then
/// on the job that it became.
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "The job as it is now", body = Job)))]
pub async fn show(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<Job>, Problem> {
    Ok(Json(match api.named(&caller, &id).await? {
        Named::Job(job) => api.view(*job).await?,
        Named::Upload(upload) => Job::awaited(*upload, api.app.clock.now()),
    }))
}

/// Get rid of an ended job
///
/// Source, images, text, results and trail are gone for good.
#[utoipa::path(delete, path = "/v1/jobs/{id}", operation_id = "delete_job", tag = "jobs", params(("id" = String, Path)),
    responses((status = 204, description = "It is gone")))]
pub async fn delete(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let job = api.job(&caller, &id).await?;
    delete::delete(&api.app, &job.id, &caller.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stop a job
///
/// What is there by then is published. Cancelling a job that is over changes nothing.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)),
    responses(
        (status = 202, description = "It will stop", body = Job),
        (status = 200, description = "It was over before", body = Job)))]
pub async fn cancel(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let job = api.job(&caller, &id).await?;
    let job = cancel::cancel(&api.app, &job.id, &caller.user).await?;
    let status = if job.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(api.view(job).await?)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HealRequest {
    /// How long the models may take, all pages together; `2m` unless said otherwise.
    #[schema(example = "2m")]
    deadline: Option<String>,
}

/// Have the pages without AI text read once more
///
/// Pages that are read by then replace their fallback in a new version of the result.
#[utoipa::path(post, path = "/v1/jobs/{id}/heal", operation_id = "heal_job", tag = "jobs", params(("id" = String, Path)),
    request_body = Option<HealRequest>,
    responses((status = 202, description = "These pages are asked for again", body = Healing)))]
pub async fn heal(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Healing>), Problem> {
    let request: HealRequest = problem::json(&body)?;
    let text = request.deadline.as_deref().unwrap_or(HEALING_TIME);
    let time = parse_duration(text)
        .map_err(|wanted| Problem::mistake("deadline", format!("{text:?} is not {wanted}")))?;
    let job = api.job(&caller, &id).await?;
    let sent = heal::send(&api.app, &job.id, time).await?;
    api.attend(&job.id);
    let healing = Healing {
        job: job.id.to_string(),
        sent: sent.into_iter().map(|page| page.get()).collect(),
        version: job.result.map_or(0, |result| result.version),
    };
    Ok((StatusCode::ACCEPTED, Json(healing)))
}
