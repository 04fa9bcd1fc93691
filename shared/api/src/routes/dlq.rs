//! Dead letters of the caller's tenant.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State},
    http::HeaderMap,
};
use everypage_core::{
    dead_letters::{self, DeadLetter as DeadLetterRecord},
    ids::{DeadLetterId, JobId, TenantId},
    job::jobs,
    recover::redrive,
    secret::Secret,
    time::after,
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    cursor::ListParams,
    problem::{Code, Problem},
    request::{self, RequestOptions},
    shape::{DeadLetter, DeadLetterList, Estimate, List, Purged, RedriveFailure, Redriven},
};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

/// Dead letters that one request may name.
const MAX_IDS: usize = 1000;
/// Longest id of a dead letter: a job's id, a page number and more.
const MAX_ID: usize = 200;

/// Dead letters per second, as on the command line.
const DEFAULT_RATE: f64 = 10.0;
const MIN_RATE: f64 = 0.001;

/// List dead letters, oldest first
///
/// A response may have fewer items than `limit`, or none, and still have a `next`.
#[utoipa::path(get, path = "/v1/dlq", operation_id = "list_dead_letters", tag = "operation", params(ListParams),
    responses((status = 200, description = "Up to 500 dead letters, 100 by default", body = DeadLetterList)))]
pub async fn list(
    State(api): State<Api>,
    Operator(caller): Operator,
    Query(params): Query<ListParams>,
) -> Result<Json<DeadLetterList>, Problem> {
    let (limit, after) = (params.limit(DEFAULT_LIMIT, MAX_LIMIT)?, params.after("dlq")?);
    let page = dead_letters::list_page(&api.app.store, &caller.tenant, after, limit).await?;
    let jobs: HashSet<JobId> =
        page.items.iter().filter_map(|dead_letter| dead_letter.subject.job().cloned()).collect();
    let names: HashMap<JobId, String> = jobs::find_many(&api.app.store, jobs.into_iter())
        .await?
        .into_iter()
        .map(|job| (job.id, job.received.document.name))
        .collect();
    let named = |dead_letter: DeadLetterRecord| {
        let document = dead_letter.subject.job().and_then(|job| names.get(job)).cloned();
        DeadLetter::new(dead_letter, document)
    };
    Ok(Json(List::new("dlq", page, named)))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EstimateRequest {
    /// Ids of the dead letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Whether to use all dead letters of the tenant.
    #[serde(default)]
    all: bool,
}

/// Estimate the cost of a redrive
///
/// Send either `ids` or `all`. The estimate covers as many dead letters as fit into the time of one
/// request, in the order of `ids`, and counts the others in `remaining`.
#[utoipa::path(post, path = "/v1/dlq/estimate", operation_id = "estimate_redrive", tag = "operation", request_body = EstimateRequest,
    responses((status = 200, description = "The estimate, from the plans of the jobs", body = Estimate)))]
pub async fn estimate(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Estimate>, Problem> {
    let request: EstimateRequest = request::json(&body)?;
    let until = after(api.app.store.clock.now(), api.batch_time);
    let ids = selected(&api, &caller.tenant, request.ids, request.all, Some(api.batch_time / 2)).await?;
    let (mut dead_letters, mut remaining, mut sum) = (0, ids.len(), redrive::Estimate::default());
    for (index, id) in ids.into_iter().enumerate() {
        if index > 0 && api.app.store.clock.now() >= until {
            break;
        }
        remaining -= 1;
        if let Some(dead_letter) = find(&api, &caller.tenant, &id).await? {
            dead_letters += 1;
            redrive::estimate(&api.app.store, &dead_letter, &mut sum).await?;
        }
    }
    Ok(Json(Estimate {
        dead_letters,
        pages: sum.pages,
        cost_micro_usd: sum.cost.0,
        unknown: sum.unknown,
        remaining,
    }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Ids of the dead letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Whether to use all dead letters of the tenant.
    #[serde(default)]
    all: bool,
    /// The number of dead letters to delete. If it is wrong, nothing is deleted and the response has the
    /// right number.
    #[schema(example = 3)]
    confirm: Option<usize>,
}

/// Delete dead letters
///
/// Send either `ids` or `all`, and their number in `confirm`. This can't be undone.
#[utoipa::path(post, path = "/v1/dlq/purge", operation_id = "purge_dead_letters", tag = "operation", request_body = PurgeRequest,
    responses((status = 200, description = "The dead letters are deleted", body = Purged)))]
pub async fn purge(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Purged>, Problem> {
    let request: PurgeRequest = request::json(&body)?;
    let mut dead_letters = Vec::new();
    for id in selected(&api, &caller.tenant, request.ids, request.all, None).await? {
        dead_letters.extend(find(&api, &caller.tenant, &id).await?);
    }
    if request.confirm != Some(dead_letters.len()) {
        let detail =
            format!("this deletes {} dead letters; send \"confirm\": {0} to delete them", dead_letters.len());
        return Err(Problem::new(Code::NotConfirmed, detail));
    }
    for dead_letter in &dead_letters {
        dead_letters::purge(&api.app.store, &dead_letter.id, &caller.user).await?;
    }
    Ok(Json(Purged { purged: dead_letters.len() }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedriveRequest {
    /// Ids of the dead letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Whether to use all dead letters of the tenant.
    #[serde(default)]
    all: bool,
    /// Dead letters per second; 10 by default.
    #[schema(example = 10.0)]
    rate: Option<f64>,
    /// Opens encrypted documents.
    password: Option<String>,
}

/// Redrive dead letters
///
/// Sends their messages to the queue again. Send either `ids` or `all`. Dead letters that do not fit into
/// the time of one request are counted in `remaining`: repeat it. A `password` opens encrypted documents; it
/// may also be sent in the header `Everypage-Password`, which can't hold every character.
#[utoipa::path(post, path = "/v1/dlq/redrive", operation_id = "redrive_dead_letters", tag = "operation", request_body = RedriveRequest,
    params(("Everypage-Password" = Option<String>, Header, description = "Opens encrypted documents")),
    responses((status = 200, description = "The outcome for each dead letter", body = Redriven)))]
pub async fn redrive(
    State(api): State<Api>,
    Operator(caller): Operator,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Redriven>, Problem> {
    let request: RedriveRequest = request::json(&body)?;
    let mut options = RequestOptions::read(&headers, &[]);
    if let Some(password) = &request.password {
        options.set("password", password);
    }
    let password = options.checked()?.password;
    let rate = request.rate.unwrap_or(DEFAULT_RATE);
    if !(rate.is_finite() && rate >= MIN_RATE) {
        return Err(Problem::invalid(
            "rate",
            "must be a number of dead letters per second, such as 5 or 0.5",
        ));
    }
    let app = &api.app;
    let (pause, until) = (Duration::from_secs_f64(1.0 / rate), after(app.store.clock.now(), api.batch_time));
    let ids = selected(&api, &caller.tenant, request.ids, request.all, Some(api.batch_time / 2)).await?;
    let mut outcome = Redriven { remaining: ids.len(), ..Redriven::default() };
    for (index, id) in ids.into_iter().enumerate() {
        if index > 0 {
            if after(app.store.clock.now(), pause) >= until {
                break;
            }
            app.store.clock.sleep(pause).await;
        }
        outcome.remaining -= 1;
        match redrive_one(&api, &caller.tenant, &caller.user, &id, password.clone()).await {
            Ok(()) => outcome.redriven.push(id),
            Err(problem) => outcome.failed.push(RedriveFailure {
                code: problem.code(),
                reason: problem.detail().to_owned(),
                id,
            }),
        }
    }
    Ok(Json(outcome))
}

/// The ids that a request selects. For `all`, those that are found within `time`, oldest first: a redrive
/// removes them from the list, so the next request finds the others.
async fn selected(
    api: &Api,
    tenant: &TenantId,
    ids: Option<Vec<String>>,
    every: bool,
    time: Option<Duration>,
) -> Result<Vec<String>, Problem> {
    match (ids, every) {
        (Some(ids), false) if ids.is_empty() || ids.len() > MAX_IDS => {
            Err(Problem::invalid("ids", format!("must have 1 to {MAX_IDS} ids")))
        }
        (Some(mut ids), false) => {
            // An id that is given twice counts once.
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(id.clone()));
            Ok(ids)
        }
        (None, true) => all(api, tenant, time).await,
        _ => Err(Problem::invalid("ids", "send either ids or \"all\": true")),
    }
}

/// Finds a dead letter of the tenant that was not redriven or purged.
async fn find(api: &Api, tenant: &TenantId, id: &str) -> Result<Option<DeadLetterRecord>, Problem> {
    if id.is_empty() || id.len() > MAX_ID {
        return Ok(None);
    }
    let dead_letter =
        dead_letters::find(&api.app.store, &DeadLetterId::new(id)).await?.map(|kept| kept.value);
    Ok(dead_letter.filter(|dead_letter| dead_letter.tenant == *tenant && dead_letter.is_waiting()))
}

async fn all(api: &Api, tenant: &TenantId, time: Option<Duration>) -> Result<Vec<String>, Problem> {
    let clock = &api.app.store.clock;
    let until = time.map(|time| after(clock.now(), time));
    let mut ids = Vec::new();
    let mut place = None;
    loop {
        let page = dead_letters::list_page(&api.app.store, tenant, place, MAX_LIMIT).await?;
        ids.extend(page.items.into_iter().map(|dead_letter| dead_letter.id.to_string()));
        match page.next {
            Some(next) if until.is_none_or(|until| clock.now() < until) => place = Some(next),
            _ => return Ok(ids),
        }
    }
}

async fn redrive_one(
    api: &Api,
    tenant: &TenantId,
    by: &str,
    id: &str,
    password: Option<Secret>,
) -> Result<(), Problem> {
    let dead_letter = find(api, tenant, id).await?;
    let dead_letter =
        dead_letter.ok_or_else(|| Problem::new(Code::UnknownDeadLetter, "there is no such dead letter"))?;
    if let redrive::Redriven::Page(job) =
        redrive::redrive(&api.app.recovery, &dead_letter.id, by, password).await?
    {
        api.resume(&job);
    }
    Ok(())
}
