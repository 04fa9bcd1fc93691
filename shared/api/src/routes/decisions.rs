//! Decisions on plans that need approval.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
};
use everypage_core::{
    job,
    plan::decide::{self, Decision},
    providers::target::{Provider, Tier},
    settings::{AiPages, Cost},
    time::after,
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    Api, Caller,
    auth::Operator,
    problem::{Code, Problem},
    request::{self, RequestOptions},
    shape::{Job, Priority},
};

/// Finds a job that waits for approval.
async fn awaiting_approval(api: &Api, caller: &Caller, id: &str) -> Result<job::Job, Problem> {
    let job = api.job(caller, id).await?;
    match job.awaits_approval() {
        true => Ok(job),
        false => {
            let detail = format!("job {} does not wait for approval: it is {}", job.id, job.status());
            Err(Problem::new(Code::IllegalTransition, detail))
        }
    }
}

/// Approve a plan
#[utoipa::path(post, path = "/v1/jobs/{id}/approve", operation_id = "approve_job", tag = "operation", params(("id" = String, Path, description = "The id of the job")),
    responses((status = 200, description = "The job continues", body = Job)))]
pub async fn approve(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
) -> Result<Json<Job>, Problem> {
    let job = awaiting_approval(&api, &caller, &id).await?;
    let job = decide::decide(&api.app.planner, &job.id, &caller.user, Decision::Approve).await?;
    Ok(Json(api.view(job).await?))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// Why; stored in the audit trail and shown with the job.
    #[schema(example = "too expensive")]
    reason: Option<String>,
}

/// Longest reason that is stored.
const MAX_REASON: usize = 1000;

/// Reject a plan
#[utoipa::path(post, path = "/v1/jobs/{id}/reject", operation_id = "reject_job", tag = "operation", params(("id" = String, Path, description = "The id of the job")),
    request_body = Option<RejectRequest>,
    responses((status = 200, description = "The job has ended", body = Job)))]
pub async fn reject(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Job>, Problem> {
    let request: RejectRequest = request::json(&body)?;
    let reason = request.reason.unwrap_or_else(|| "rejected through the API".to_owned());
    if reason.chars().count() > MAX_REASON {
        return Err(Problem::invalid("reason", format!("has more than {MAX_REASON} characters")));
    }
    let job = awaiting_approval(&api, &caller, &id).await?;
    let job = decide::decide(&api.app.planner, &job.id, &caller.user, Decision::Reject { reason }).await?;
    Ok(Json(api.view(job).await?))
}

/// The options to change; at least one.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes a body that is read field by field, to report every error")]
pub struct ModifyRequest {
    /// Of the selected pages, those that may go to AI; the others keep their own text.
    #[schema(example = "1-10")]
    pages: Option<String>,
    /// Pages that go to AI.
    ai_pages: Option<AiPages>,
    /// The model that is called first.
    tier: Option<Tier>,
    /// The provider that is called first.
    provider: Option<Provider>,
    /// Models in the order in which they are called, as `PROVIDER:MODEL`, instead of `provider` and `tier`.
    #[schema(example = "openai:gpt-5.4,gemini:gemini-3.8-flash")]
    failover: Option<String>,
    /// `low` for the cheaper, slower tier of providers that have one, while the time left allows.
    cost: Option<Cost>,
    /// What the job's model calls may cost, in US dollars.
    #[schema(example = "2.50")]
    budget_usd: Option<String>,
    /// The time from now to the result.
    #[schema(example = "10m")]
    deadline: Option<String>,
    /// How long a page is retried: `deadline`, a time, or `0` for one round.
    #[schema(example = "deadline")]
    patience: Option<String>,
    /// Higher ones go first.
    priority: Option<Priority>,
}

/// Modify a plan and approve it
#[utoipa::path(post, path = "/v1/jobs/{id}/modify", operation_id = "modify_job", tag = "operation", params(("id" = String, Path, description = "The id of the job")),
    request_body = ModifyRequest,
    responses((status = 200, description = "The job continues with the modified plan", body = Job)))]
pub async fn modify(
    State(api): State<Api>,
    Operator(caller): Operator,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<Job>, Problem> {
    let fields = request::object(body).await?;
    let mut options = RequestOptions::default();
    for name in ["name", "password", "force"] {
        if fields.contains_key(name) {
            options.reject(name, "can't be changed");
        }
    }
    if fields.is_empty() {
        return Err(Problem::new(
            Code::BadOptions,
            "send the options to change, such as {\"tier\": \"fast\"}",
        ));
    }
    options.set_all(fields);
    let overrides = options.checked()?.overrides;
    if overrides.deadline.is_some_and(|time| time > api.app.settings.max_deadline) {
        return Err(Problem::invalid("deadline", "longer than the service allows (MAX_DEADLINE)"));
    }
    let job = awaiting_approval(&api, &caller, &id).await?;
    let now = api.app.store.clock.now();
    let job = decide::modify(&api.app.planner, &job.id, &caller.user, |job| {
        job.received.options = overrides.apply_to(job.received.options.clone());
        if let Some(time) = overrides.deadline {
            job.deadline = after(now, time);
        }
    })
    .await?;
    Ok(Json(api.view(job).await?))
}
