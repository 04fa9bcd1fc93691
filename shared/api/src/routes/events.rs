use axum::{
    Json,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use everypage_core::{
    event::{self, matches_kind},
    events::listing,
    tenants::caller::Caller,
};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    Api,
    auth::Known,
    cursor::ListParams,
    problem::Problem,
    shape::{Event, EventList, List},
    stream,
};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;
const AGGREGATES: &str = "expected job/ID, job/ID/page/N, account/TENANT, purchase/ID, dead_letter/ID, breaker/TARGET, \
                          tenant/TENANT or erasure/ID";

/// List or stream the events of a job
///
/// The list has the job's own events in order, then those of its pages, page by page. With `type` a response
/// may have fewer items than `limit`, or none, and still have a `next`. With
/// `Accept: text/event-stream`, where `streams` of `/v1/me` is true, the response is a stream: an event `job`
/// with the job's current state, then its events as they are stored, each batch followed by the job. The
/// stream ends with the job, or after five minutes. With `Last-Event-ID` it continues after that event; an
/// event that is sent again has the same `id`.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", operation_id = "list_job_events", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job"), ListParams, TypeFilter, ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client received: the stream continues after it")),
    responses(
        (status = 200, description = "Up to 1000 events, 100 by default; or a stream of events", content(
            (EventList = "application/json"), (String = "text/event-stream"))),
        (status = 204, description = "The job has ended and the client has its last event")))]
pub async fn events(
    State(api): State<Api>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(params): Query<ListParams>,
    Query(filter): Query<TypeFilter>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = api.job(&caller, &id).await?;
    if stream::is_accepted(&headers) {
        return stream::respond(&api, caller.tenant, Some(job.id), filter.kind, &headers).await;
    }
    // The id of an upload and the id of its job name the same list.
    let list = format!("events/{}", job.id);
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after(&list)?);
    let mut page = listing::job_events(&api.app.store, &job.id, after, limit).await?;
    page.items.retain(|event| is_wanted(filter.kind.as_deref(), event));
    Ok(Json(List::new(&list, page, Event::from)).into_response())
}

fn is_wanted(kinds: Option<&str>, event: &event::Event) -> bool {
    kinds.is_none_or(|kinds| matches_kind(kinds, &event.kind))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TypeFilter {
    /// Only events of these types: types or prefixes such as `job.*`, separated by commas.
    #[serde(rename = "type")]
    #[param(example = "page.settled")]
    kind: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Only events of these types: types or prefixes such as `job.*`, separated by commas.
    #[serde(rename = "type")]
    #[param(example = "job.failed")]
    kind: Option<String>,
    /// Only events of one aggregate, such as `job/ID`, `job/ID/page/N`, `account/TENANT`, `purchase/ID`,
    /// `dead_letter/ID`, `breaker/TARGET` or `tenant/TENANT`, in the order of its trail. Not for streams.
    #[param(example = "account/acme")]
    aggregate: Option<String>,
    /// Only events from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
}

/// List or stream the events of the tenant, oldest first
///
/// A response may have fewer items than `limit`, or none, and still have a `next`. With
/// `Accept: text/event-stream`, where `streams` of `/v1/me` is true, the response is a stream of every event
/// from now on, or after `Last-Event-ID` and at most a day back. The stream ends after five minutes:
/// reconnect with the last id.
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", tag = "jobs",
    params(ListParams, Filter, ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client received: the stream continues after it")),
    responses((status = 200, description = "Up to 1000 events, 100 by default; or a stream of events", content(
        (EventList = "application/json"), (String = "text/event-stream")))))]
pub async fn of_tenant(
    State(api): State<Api>,
    Known(caller): Known,
    Query(params): Query<ListParams>,
    Query(filter): Query<Filter>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if stream::is_accepted(&headers) {
        return stream::respond(&api, caller.tenant, None, filter.kind, &headers).await;
    }
    if let Some(aggregate) = &filter.aggregate {
        return of_aggregate(&api, &caller, &params, &filter, aggregate).await;
    }
    let limit = params.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let after = params.after("events")?.or(filter.since.map(|since| format!("{since:.3}")));
    let matches = |event: &event::Event| is_wanted(filter.kind.as_deref(), event);
    let page = listing::tenant_events(&api.app.store, &caller.tenant, after, limit, matches).await?;
    Ok(Json(List::new("events", page, Event::from)).into_response())
}

/// Events of another tenant are not there, as if they did not exist.
async fn of_aggregate(
    api: &Api,
    caller: &Caller,
    params: &ListParams,
    filter: &Filter,
    aggregate: &str,
) -> Result<Response, Problem> {
    let parsed = aggregate.parse().map_err(|_| Problem::invalid("aggregate", AGGREGATES))?;
    let list = format!("events of {parsed}");
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after(&list)?);
    let wanted = |event: &everypage_core::event::Event| {
        filter.kind.as_ref().is_none_or(|kinds| matches_kind(kinds, &event.kind))
            && filter.since.is_none_or(|since| event.timestamp >= since)
    };
    let store = &api.app.store;
    let page = listing::aggregate_events(store, &caller.tenant, &parsed, after, limit, wanted).await?;
    Ok(Json(List::new(&list, page, Event::from)).into_response())
}
