//! Dead letters of the caller's tenant.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State},
    http::HeaderMap,
};
use everypage_core::{
    domain::{
        ids::{DeadLetterId, TenantId},
        secret::Secret,
    },
    ports::clock::after,
    store::{
        dead::{self, Subject},
        listing,
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
    shape::{DeadLetter, Piece, Redriven, Unsent},
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
    let items = piece.items.into_iter().map(DeadLetter::from).collect();
    Ok(Json(Piece { items, next: piece.next.map(|next| cursor::write("dlq", &next)) }))
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
}

/// Send dead letters back to work
///
/// Either `ids` or `all`. What can't be reached within the time of one request is counted in
/// `left`: ask again. The header `Everypage-Password` opens encrypted documents among them.
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
    let password = Asked::read(&headers, &[]).checked()?.password;
    let rate = request.rate.unwrap_or(RATE);
    if !(rate.is_finite() && rate >= LEAST_RATE) {
        return Err(Problem::mistake("rate", "it takes a number of letters a second, such as 5 or 0.5"));
    }
    let ids = match (request.ids, request.all) {
        (Some(ids), false) if ids.is_empty() || ids.len() > MOST_IDS => {
            return Err(Problem::mistake("ids", format!("it takes 1 to {MOST_IDS} ids")));
        }
        (Some(ids), false) => ids,
        (None, true) => all(&api, &caller.tenant).await?,
        _ => return Err(Problem::mistake("ids", "say either which letters (ids) or \"all\": true")),
    };
    let app = &api.app;
    let (pause, until) = (Duration::from_secs_f64(1.0 / rate), after(app.clock.now(), api.patience));
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

async fn all(api: &Api, tenant: &TenantId) -> Result<Vec<String>, Problem> {
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let piece = listing::dead_letters(&api.app, tenant, after, MOST).await?;
        ids.extend(piece.items.into_iter().map(|letter| letter.id.to_string()));
        match piece.next {
            Some(next) => after = Some(next),
            None => return Ok(ids),
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
    let unknown = || Problem::new(&problem::UNKNOWN_DEAD_LETTER, "there is no such dead letter");
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(unknown());
    }
    let id = DeadLetterId::new(id);
    let letter = dead::find(&api.app, &id).await?.map(|kept| kept.value);
    let letter = letter.filter(|letter| letter.tenant == *tenant).ok_or_else(unknown)?;
    if let Subject::Page { job, .. } = &letter.subject {
        api.take_on(job).await?;
    }
    redrive::redrive(&api.app, &id, by, password).await?;
    Ok(())
}
