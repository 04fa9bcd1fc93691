use std::time::Duration;

use axum::{
    Json,
    extract::{Query, State},
};
use everypage_core::{observe::figures, settings::parse_duration};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{Api, auth::Known, problem::Problem, shape::Stats};

const DEFAULT_WINDOW: &str = "24h";
/// More than a month.
const MAX_WINDOW: Duration = Duration::from_secs(32 * 24 * 3600);
const DEFAULT_BUCKETS: usize = 24;
const MAX_BUCKETS: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Period {
    /// The length of the period up to now; `24h` by default, at most `768h`.
    #[param(example = "24h")]
    window: Option<String>,
    /// The number of buckets of equal length; 24 by default.
    #[param(minimum = 1, maximum = 100)]
    buckets: Option<usize>,
}

/// Get statistics of the tenant's jobs
///
/// Throughput, durations and cost for charts, from at most the newest 5,000 jobs.
#[utoipa::path(get, path = "/v1/stats", operation_id = "get_stats", tag = "jobs", params(Period),
    responses((status = 200, description = "The statistics of each bucket, oldest first", body = Stats)))]
pub async fn stats(
    State(api): State<Api>,
    Known(caller): Known,
    Query(period): Query<Period>,
) -> Result<Json<Stats>, Problem> {
    let text = period.window.as_deref().unwrap_or(DEFAULT_WINDOW);
    let window = parse_duration(text)
        .map_err(|expected| Problem::invalid("window", format!("{text:?} is not {expected}")))?;
    if window.is_zero() || window > MAX_WINDOW {
        return Err(Problem::invalid("window", format!("{text:?} is not from 1s to 768h")));
    }
    let buckets = period.buckets.unwrap_or(DEFAULT_BUCKETS);
    if !(1..=MAX_BUCKETS).contains(&buckets) {
        return Err(Problem::invalid("buckets", format!("{buckets} is not from 1 to {MAX_BUCKETS}")));
    }
    Ok(Json(figures::figures(&api.app.store, &caller.tenant, window, buckets).await?.into()))
}
