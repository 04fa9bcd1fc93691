//! The HTTP API behind API Gateway, and its authorizer. API Gateway invokes the authorizer first, with an
//! event of its own, and adds its result to every request.

mod gateway;
mod tokens;

use axum::Router;
use everypage_api::authenticate;
use everypage_core::{app::App, job::StepError};
use everypage_function::FailedStep;
use lambda_http::LambdaEvent;
use serde_json::{Value, json};

pub use gateway::behind_gateway;
pub use tokens::TokenClaims;

/// Handles an event of the authorizer, or a request. `routes` are those of [`behind_gateway`].
pub async fn handle(app: &App, routes: &Router, event: LambdaEvent<Value>) -> Result<Value, FailedStep> {
    // First, because events of the authorizer have the shape of requests.
    match event.payload["type"] == "REQUEST" {
        true => authorize(app, &event.payload).await,
        false => gateway::respond(routes, event).await,
    }
}

/// Authenticates a caller. API Gateway caches the result for a minute and adds it to each request.
async fn authorize(app: &App, event: &Value) -> Result<Value, FailedStep> {
    let header = event["identitySource"][0].as_str().or(event["headers"]["authorization"].as_str());
    let caller = authenticate(&app.store, header).await.map_err(StepError::from)?;
    Ok(match caller {
        None => json!({ "isAuthorized": false }),
        Some(caller) => json!({ "isAuthorized": true, "context": caller }),
    })
}
