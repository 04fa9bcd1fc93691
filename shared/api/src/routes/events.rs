use axum::{
    Json,
    extract::{Path, Query, State},
};
use everypage_core::store::listing;

use crate::{
    Api,
    auth::Known,
    cursor::{self, Place},
    problem::Problem,
    shape::{Event, Piece},
};

const USUAL: usize = 100;
const MOST: usize = 1000;

/// A job's audit trail
///
/// First the job's own events in order, then those of its pages, page by page.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", operation_id = "list_job_events", tag = "jobs", params(("id" = String, Path), Place),
    responses((status = 200, description = "Up to 1000 events, 100 unless asked otherwise", body = Piece<Event>)))]
pub async fn events(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(place): Query<Place>,
) -> Result<Json<Piece<Event>>, Problem> {
    let job = api.job(&caller, &id).await?;
    // An upload's id and its job's are the same list.
    let list = format!("events/{}", job.id);
    let (limit, after) = (place.limit(USUAL, MOST)?, place.after(&list)?);
    let piece = listing::events(&api.app, &job.id, after, limit).await?;
    let items = piece.items.into_iter().map(Event::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write(&list, &next)) }))
}
