//! The HTTP API behind API Gateway, and its authorizer: who calls is asked first, by an event of its
//! own, and told to the routes with every request.

mod gateway;

use axum::Router;
use everypage_api::{Caller, Role, authenticate};
use everypage_core::{app::App, domain::ids::TenantId, usecases::StepError};
use everypage_function::FailedStep;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A question of the authorizer, or a request.
pub async fn handle(app: &App, router: &Router, event: Value) -> Result<Value, FailedStep> {
    if event["type"] == "REQUEST" {
        return authorize(app, &event).await;
    }
    let caller = caller_of(&event["requestContext"]["authorizer"]["lambda"]);
    let mut request = gateway::request(event)?;
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    let Ok(response) = router.clone().oneshot(request).await;
    gateway::answer(response).await
}

/// The answer that API Gateway keeps for a minute, and hands to [`handle`] with each request.
async fn authorize(app: &App, event: &Value) -> Result<Value, FailedStep> {
    let header = event["identitySource"][0].as_str().or(event["headers"]["authorization"].as_str());
    let caller = authenticate(app, header).await.map_err(StepError::from)?;
    Ok(match caller {
        None => json!({ "isAuthorized": false }),
        Some(caller) => json!({
            "isAuthorized": true,
            "context": { "tenant": caller.tenant, "user": caller.user, "role": caller.role },
        }),
    })
}

/// Whom the authorizer recognized. Routes that are open have none.
fn caller_of(context: &Value) -> Option<Caller> {
    let role: Role = serde_json::from_value(context["role"].clone()).ok()?;
    let tenant = TenantId::new(context["tenant"].as_str()?);
    Some(Caller { tenant, user: context["user"].as_str()?.to_owned(), role })
}
