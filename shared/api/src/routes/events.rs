use axum::{
    Json,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use everypage_core::store::listing;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Api,
    auth::Known,
    cursor::{self, Place},
    problem::Problem,
    shape::{Event, Piece},
    stream,
};

const USUAL: usize = 100;
const MOST: usize = 1000;

/// A job's audit trail
///
/// First the job's own events in order, then those of its pages, page by page. With
/// `Accept: text/event-stream`, where the service streams (see `/v1/me`): an event `job` with the job
/// as it is now, then its events as they are stored, each followed by the job; it ends with the job, or
/// after five minutes. `Last-Event-ID` goes on from there; a repeated event has the same `id`.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", operation_id = "list_job_events", tag = "jobs",
    params(("id" = String, Path), Place, ("Last-Event-ID" = Option<String>, Header, description = "Where a stream goes on")),
    responses(
        (status = 200, description = "Up to 1000 events, 100 unless asked otherwise; or a stream", content(
            (Piece<Event> = "application/json"), (String = "text/event-stream"))),
        (status = 204, description = "The job has ended and its stream has nothing new")))]
pub async fn events(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(place): Query<Place>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = api.job(&caller, &id).await?;
    if stream::is_wanted(&headers) {
        return stream::answer(&api, caller.tenant, Some(job.id), &headers).await;
    }
    // An upload's id and its job's are the same list.
    let list = format!("events/{}", job.id);
    let (limit, after) = (place.limit(USUAL, MOST)?, place.after(&list)?);
    let piece = listing::events(&api.app, &job.id, after, limit).await?;
    let items = piece.items.into_iter().map(Event::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write(&list, &next)) }).into_response())
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// Only events of this type.
    #[serde(rename = "type")]
    #[param(example = "job.failed")]
    kind: Option<String>,
    /// Only events from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
}

/// What happened to the tenant's jobs, pages and dead letters, oldest first
///
/// A piece may hold fewer events than asked for, or none, and still have a `next`. With
/// `Accept: text/event-stream`, where the service streams: every event from now on, or from
/// `Last-Event-ID` on, at most a day back. The stream ends after five minutes: come back with the last id.
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", tag = "jobs",
    params(Place, Wanted, ("Last-Event-ID" = Option<String>, Header, description = "Where a stream goes on")),
    responses((status = 200, description = "Up to 1000 events, 100 unless asked otherwise; or a stream", content(
        (Piece<Event> = "application/json"), (String = "text/event-stream")))))]
pub async fn of_tenant(
    State(api): State<Api>,
    Known(caller): Known,
    Query(place): Query<Place>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if stream::is_wanted(&headers) {
        return stream::answer(&api, caller.tenant, None, &headers).await;
    }
    let limit = place.limit(USUAL, MOST)?;
    let after = place.after("events")?.or(wanted.since.map(|since| format!("{since:.3}")));
    let is_wanted = |event: &everypage_core::domain::event::Event| {
        wanted.kind.as_ref().is_none_or(|kind| *kind == event.kind)
    };
    let piece = listing::tenant_events(&api.app, &caller.tenant, after, limit, is_wanted).await?;
    let items = piece.items.into_iter().map(Event::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("events", &next)) }).into_response())
}
