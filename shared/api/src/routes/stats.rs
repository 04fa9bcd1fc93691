use std::time::Duration;

use axum::{
    Json,
    extract::{Query, State},
};
use everypage_core::{config::parse_duration, usecases::figures};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{Api, auth::Known, problem::Problem, shape::Stats};

const WINDOW: &str = "24h";
/// A month and a bit.
const LONGEST: Duration = Duration::from_secs(32 * 24 * 3600);
const SPANS: usize = 24;
const MOST_SPANS: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// How far back; `24h` unless said otherwise, up to `768h`.
    #[param(example = "24h")]
    window: Option<String>,
    /// Into how many spans of the same length it is cut; 24 unless said otherwise.
    #[param(minimum = 1, maximum = 100)]
    spans: Option<usize>,
}

/// How the tenant's jobs fared
///
/// For charts: throughput, times and cost, from the newest 5,000 jobs at most.
#[utoipa::path(get, path = "/v1/stats", operation_id = "get_stats", tag = "jobs", params(Wanted),
    responses((status = 200, description = "Figures of each span, oldest first", body = Stats)))]
pub async fn stats(
    State(api): State<Api>,
    Known(caller): Known,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Stats>, Problem> {
    let text = wanted.window.as_deref().unwrap_or(WINDOW);
    let window = parse_duration(text)
        .map_err(|accepted| Problem::mistake("window", format!("{text:?} is not {accepted}")))?;
    if window.is_zero() || window > LONGEST {
        return Err(Problem::mistake("window", format!("{text:?} is not from 1s to 768h")));
    }
    let spans = wanted.spans.unwrap_or(SPANS);
    if !(1..=MOST_SPANS).contains(&spans) {
        return Err(Problem::mistake("spans", format!("{spans} is not from 1 to {MOST_SPANS}")));
    }
    Ok(Json(figures::figures(&api.app, &caller.tenant, window, spans).await?.into()))
}
