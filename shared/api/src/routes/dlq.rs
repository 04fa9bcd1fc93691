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
    domain::{
        ids::{DeadLetterId, JobId, TenantId},
        secret::Secret,
    },
    ports::clock::after,
    store::{
        dead::{self, DeadLetter as DeadLetterRecord},
        jobs, listing,
    },
    usecases::redrive,
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api,
    auth::Operator,
    cursor::{self, Place},
    problem::{self, Problem},
    shape::{DeadLetter, Estimate, Piece, Purged, Redriven, Unsent},
    spool::Asked,
};

const USUAL: usize = 100;
const MOST: usize = 500;

/// Letters that one request may name.
const MOST_IDS: usize = 1000;
/// Longest id of a letter: a job's, a page's number and more.
const LONGEST_ID: usize = 200;

/// Letters a second, as on the command line.
const RATE: f64 = 10.0;
const LEAST_RATE: f64 = 0.001;

/// Dead letters that wait for somebody, oldest first
///
/// A piece may hold fewer letters than asked for, or none, and still have a `next`.
#[utoipa::path(get, path = "/v1/dlq", operation_id = "list_dead_letters", tag = "operation", params(Place),
    responses((status = 200, description = "Up to 500 letters, 100 unless asked otherwise", body = Piece<DeadLetter>)))]
pub async fn list(
    State(api): State<Api>,
    Operator(caller): Operator,
    Query(place): Query<Place>,
) -> Result<Json<Piece<DeadLetter>>, Problem> {
    let (limit, after) = (place.limit(USUAL, MOST)?, place.after("dlq")?);
    let piece = listing::dead_letters(&api.app, &caller.tenant, after, limit).await?;
    let jobs: HashSet<JobId> =
        piece.items.iter().filter_map(|letter| letter.subject.job().cloned()).collect();
    let names: HashMap<JobId, String> = jobs::find_many(&api.app, jobs.into_iter())
        .await?
        .into_iter()
        .map(|job| (job.id, job.received.document.name))
        .collect();
    let named = |letter: DeadLetterRecord| {
        let document = letter.subject.job().and_then(|job| names.get(job)).cloned();
        DeadLetter::new(letter, document)
    };
    let items = piece.items.into_iter().map(named).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("dlq", &next)) }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EstimateRequest {
    /// These letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Every letter that waits.
    #[serde(default)]
    all: bool,
}

/// What sending dead letters back may cost
///
/// Either `ids` or `all`, as for the redrive itself. Nothing is sent. What can't be looked at within
/// the time of one request is counted in `left`; letters are looked at in the order of `ids`.
#[utoipa::path(post, path = "/v1/dlq/estimate", operation_id = "estimate_redrive", tag = "operation", request_body = EstimateRequest,
    responses((status = 200, description = "By the plans of their jobs", body = Estimate)))]
pub async fn estimate(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Estimate>, Problem> {
    let request: EstimateRequest = problem::json(&body)?;
    let until = after(api.app.clock.now(), api.patience);
    let ids = chosen(&api, &caller.tenant, request.ids, request.all, Some(api.patience / 2)).await?;
    let (mut letters, mut left, mut sum) = (0, ids.len(), redrive::Estimate::default());
    for (index, id) in ids.into_iter().enumerate() {
        if index > 0 && api.app.clock.now() >= until {
            break;
        }
        left -= 1;
        if let Some(letter) = find(&api, &caller.tenant, &id).await? {
            letters += 1;
            redrive::estimate(&api.app, &letter, &mut sum).await?;
        }
    }
    Ok(Json(Estimate { letters, pages: sum.pages, cost_micro_usd: sum.cost.0, unknown: sum.unknown, left }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// These letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Every letter that waits.
    #[serde(default)]
    all: bool,
    /// How many letters will be gone. Where it is another number nothing is done, and the answer
    /// says how many there are.
    #[schema(example = 3)]
    confirm: Option<usize>,
}

/// Let dead letters go, for good
///
/// Either `ids` or `all`, and their number in `confirm`.
#[utoipa::path(post, path = "/v1/dlq/purge", operation_id = "purge_dead_letters", tag = "operation", request_body = PurgeRequest,
    responses((status = 200, description = "They are gone", body = Purged)))]
pub async fn purge(
    State(api): State<Api>,
    Operator(caller): Operator,
    body: Bytes,
) -> Result<Json<Purged>, Problem> {
    let request: PurgeRequest = problem::json(&body)?;
    let mut letters = Vec::new();
    for id in chosen(&api, &caller.tenant, request.ids, request.all, None).await? {
        letters.extend(find(&api, &caller.tenant, &id).await?);
    }
    if request.confirm != Some(letters.len()) {
        let detail =
            format!("{} letters would be gone for good; say \"confirm\": {0} to do it", letters.len());
        return Err(Problem::new(&problem::NOT_CONFIRMED, detail));
    }
    for letter in &letters {
        redrive::purge(&api.app, &letter.id, &caller.user).await?;
    }
    Ok(Json(Purged { purged: letters.len() }))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedriveRequest {
    /// These letters; up to 1000.
    ids: Option<Vec<String>>,
    /// Every letter that waits.
    #[serde(default)]
    all: bool,
    /// Letters a second; 10 unless said otherwise.
    #[schema(example = 10.0)]
    rate: Option<f64>,
    /// Opens encrypted documents among them.
    password: Option<String>,
}

/// Send dead letters back to work
///
/// Either `ids` or `all`. What can't be reached within the time of one request is counted in
/// `left`: ask again. A `password` opens encrypted documents among them; it may also stand in the header
/// `Everypage-Password`, which can't hold every character.
#[utoipa::path(post, path = "/v1/dlq/redrive", operation_id = "redrive_dead_letters", tag = "operation", request_body = RedriveRequest,
    params(("Everypage-Password" = Option<String>, Header, description = "Opens encrypted documents")),
    responses((status = 200, description = "What became of each", body = Redriven)))]
pub async fn redrive(
    State(api): State<Api>,
    Operator(caller): Operator,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Redriven>, Problem> {
    let request: RedriveRequest = problem::json(&body)?;
    let mut asked = Asked::read(&headers, &[]);
    if let Some(password) = &request.password {
        asked.take("password", password);
    }
    let password = asked.checked()?.password;
    let rate = request.rate.unwrap_or(RATE);
    if !(rate.is_finite() && rate >= LEAST_RATE) {
        return Err(Problem::mistake("rate", "it takes a number of letters a second, such as 5 or 0.5"));
    }
    let app = &api.app;
    let (pause, until) = (Duration::from_secs_f64(1.0 / rate), after(app.clock.now(), api.patience));
    let ids = chosen(&api, &caller.tenant, request.ids, request.all, Some(api.patience / 2)).await?;
    let mut answer = Redriven { left: ids.len(), ..Redriven::default() };
    for (index, id) in ids.into_iter().enumerate() {
        if index > 0 {
            if after(app.clock.now(), pause) >= until {
                break;
            }
            app.clock.sleep(pause).await;
        }
        answer.left -= 1;
        match one(&api, &caller.tenant, &caller.user, &id, password.clone()).await {
            Ok(()) => answer.redriven.push(id),
            Err(problem) => answer.failed.push(Unsent {
                code: problem.code().to_owned(),
                reason: problem.detail().to_owned(),
                id,
            }),
        }
    }
    Ok(Json(answer))
}

/// Which letters a request means. Where they are all of them, those that are found within `time`: the
/// oldest, which are no longer among them when somebody asks again.
async fn chosen(
    api: &Api,
    tenant: &TenantId,
    ids: Option<Vec<String>>,
    every: bool,
    time: Option<Duration>,
) -> Result<Vec<String>, Problem> {
    match (ids, every) {
        (Some(ids), false) if ids.is_empty() || ids.len() > MOST_IDS => {
            Err(Problem::mistake("ids", format!("it takes 1 to {MOST_IDS} ids")))
        }
        (Some(mut ids), false) => {
            // Named twice is meant once.
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(id.clone()));
            Ok(ids)
        }
        (None, true) => all(api, tenant, time).await,
        _ => Err(Problem::mistake("ids", "say either which letters (ids) or \"all\": true")),
    }
}

/// A letter of the tenant's own that waits.
async fn find(api: &Api, tenant: &TenantId, id: &str) -> Result<Option<DeadLetterRecord>, Problem> {
    if id.is_empty() || id.len() > LONGEST_ID {
        return Ok(None);
    }
    let letter = dead::find(&api.app, &DeadLetterId::new(id)).await?.map(|kept| kept.value);
    Ok(letter.filter(|letter| letter.tenant == *tenant && letter.waits()))
}

async fn all(api: &Api, tenant: &TenantId, time: Option<Duration>) -> Result<Vec<String>, Problem> {
    let clock = &api.app.clock;
    let until = time.map(|time| after(clock.now(), time));
    let mut ids = Vec::new();
    let mut place = None;
    loop {
        let piece = listing::dead_letters(&api.app, tenant, place, MOST).await?;
        ids.extend(piece.items.into_iter().map(|letter| letter.id.to_string()));
        match piece.next {
            Some(next) if until.is_none_or(|until| clock.now() < until) => place = Some(next),
            _ => return Ok(ids),
        }
    }
}

async fn one(
    api: &Api,
    tenant: &TenantId,
    by: &str,
    id: &str,
    password: Option<Secret>,
) -> Result<(), Problem> {
    let letter = find(api, tenant, id).await?;
    let letter =
        letter.ok_or_else(|| Problem::new(&problem::UNKNOWN_DEAD_LETTER, "there is no such dead letter"))?;
    if let redrive::Redriven::Page(job) = redrive::redrive(&api.app, &letter.id, by, password).await? {
        api.attend(&job);
    }
    Ok(())
}
