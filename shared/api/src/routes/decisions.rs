//! A person's word on a plan.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
};
use everypage_core::{
    domain,
    ports::clock::after,
    usecases::decide::{self, Decision},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api, Caller,
    auth::Operator,
    problem::{self, Problem},
    shape::Job,
    spool::{self, Asked},
};

/// The job, if it waits for a person.
async fn waiting(api: &Api, caller: &Caller, id: &str) -> Result<domain::job::Job, Problem> {
    let job = api.job(caller, id).await?;
    match job.awaits_approval() {
        true => Ok(job),
        false => {
            let detail = format!("job {} does not wait for approval: it is {}", job.id, job.status());
            Err(Problem::new(&problem::ILLEGAL_TRANSITION, detail))
        }
    }
}

/// Agree to a plan that waits for a person
#[utoipa::path(post, path = "/v1/jobs/{id}/approve", operation_id = "approve_job", tag = "operation", params(("id" = String, Path)),
    responses((status = 200, description = "It goes on", body = Job)))]
pub async fn approve(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
) -> Result<Json<Job>, Problem> {
    let job = waiting(&api, &caller, &id).await?;
    let job = decide::decide(&api.app, &job.id, &caller.user, Decision::Approve).await?;
    Ok(Json(api.view(job).await?))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// Kept in the trail and shown with the job.
    #[schema(example = "too dear")]
    reason: Option<String>,
}

/// Longest reason that is kept.
const LONGEST_REASON: usize = 1000;

/// Turn down a plan that waits for a person
#[utoipa::path(post, path = "/v1/jobs/{id}/reject", operation_id = "reject_job", tag = "operation", params(("id" = String, Path)),
    request_body = Option<RejectRequest>,
    responses((status = 200, description = "It has ended", body = Job)))]
pub async fn reject(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Job>, Problem> {
    let request: RejectRequest = problem::json(&body)?;
    let reason = request.reason.unwrap_or_else(|| "turned down through the API".to_owned());
    if reason.chars().count() > LONGEST_REASON {
        return Err(Problem::mistake("reason", format!("it has more than {LONGEST_REASON} characters")));
    }
    let job = waiting(&api, &caller, &id).await?;
    let job = decide::decide(&api.app, &job.id, &caller.user, Decision::Reject { reason }).await?;
    Ok(Json(api.view(job).await?))
}

/// What is to be otherwise; at least one.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes a body that is read field by field, so that every mistake is told")]
pub struct ModifyRequest {
    /// Pages that may go to AI, of those that were selected; the others keep MuPDF's text.
    #[schema(example = "1-10")]
    pages: Option<String>,
    /// `graphics` or `all`.
    ai_pages: Option<String>,
    /// `primary`, `fast` or `secondary`.
    #[schema(example = "fast")]
    tier: Option<String>,
    /// `openai` or `anthropic`.
    engine: Option<String>,
    /// How long the job may take from now.
    #[schema(example = "10m")]
    deadline: Option<String>,
    /// `low`, `normal`, `high`, `critical` or `urgent`.
    priority: Option<String>,
}

/// Change a plan that waits for a person, and so agree to it
#[utoipa::path(post, path = "/v1/jobs/{id}/modify", operation_id = "modify_job", tag = "operation", params(("id" = String, Path)),
    request_body = ModifyRequest,
    responses((status = 200, description = "It goes on under the new plan", body = Job)))]
pub async fn modify(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<Job>, Problem> {
    let fields = spool::json(body).await?;
    let mut asked = Asked::default();
    for name in ["name", "password", "again"] {
        if fields.contains_key(name) {
            asked.refuse(name, "it can't be changed");
        }
    }
    if fields.is_empty() {
        return Err(Problem::new(
            &problem::BAD_OPTIONS,
            "say what is to be otherwise, such as {\"tier\": \"fast\"}",
        ));
    }
    spool::take_json(&mut asked, fields);
    let wishes = asked.checked()?.wishes;
    let job = waiting(&api, &caller, &id).await?;
    let now = api.app.clock.now();
    let job = decide::modify(&api.app, &job.id, &caller.user, |job| {
        job.received.options = wishes.over(job.received.options.clone());
        if let Some(time) = wishes.deadline {
            job.deadline = after(now, time);
        }
    })
    .await?;
    Ok(Json(api.view(job).await?))
}
