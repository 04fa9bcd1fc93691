//! Requests and responses of API Gateway, as lambda_http translates them, and what it does not handle:
//! the caller, malformed queries and responses that are too large.

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use everypage_api::{Caller, MAX_RESPONSE, Problem};
use everypage_function::FailedStep;
use lambda_http::{
    Adapter, LambdaEvent,
    aws_lambda_events::apigw::ApiGatewayV2httpRequest,
    request::{LambdaRequest, RequestContext},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;
use tower::ServiceExt;

use crate::tokens::TokenClaims;

/// Characters that API Gateway passes on in a query and that no URI may have.
const INVALID_IN_QUERY: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// Prepares the routes for requests of API Gateway. `claims` names the caller of a token.
pub fn behind_gateway(routes: Router, claims: TokenClaims) -> Router {
    let with_caller = middleware::map_request_with_state(claims, with_caller);
    routes.layer(middleware::from_fn(limit_response)).layer(with_caller)
}

/// Handles a request in version 2.0 of API Gateway's format.
pub(crate) async fn respond(routes: &Router, event: LambdaEvent<Value>) -> Result<Value, FailedStep> {
    let LambdaEvent { payload, context, .. } = event;
    let mut request: ApiGatewayV2httpRequest =
        serde_json::from_value(payload).map_err(FailedStep::unknown_event)?;
    // lambda_http panics where no URI can be built.
    if let Some(query) = &mut request.raw_query_string {
        *query = utf8_percent_encode(query, &INVALID_IN_QUERY).to_string();
    }
    let event = LambdaEvent::new(LambdaRequest::ApiGatewayV2(request), context);
    let Ok(response) = Adapter::from(routes.clone()).oneshot(event).await;
    serde_json::to_value(response).map_err(FailedStep::unknown_event)
}

/// Puts the caller that the authorizer found into the request: ours, for keys, or API Gateway's own, for tokens.
/// Routes without authentication have none.
async fn with_caller(State(claims): State<TokenClaims>, mut request: Request) -> Request {
    let context = request.extensions().get::<RequestContext>();
    let caller = context.and_then(RequestContext::authorizer).and_then(|authorizer| {
        if let Some(token) = &authorizer.jwt {
            return claims.caller(&token.claims);
        }
        let fields = authorizer.fields.clone().into_iter().collect();
        serde_json::from_value::<Caller>(Value::Object(fields)).ok()
    });
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    request
}

/// Replaces a response over Lambda's limit by a problem; it would become a bare 500. Large results and
/// images do not get here: the routes redirect to the bucket.
async fn limit_response(request: Request, next: Next) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) if bytes.len() > MAX_RESPONSE => Problem::response_too_large(bytes.len()).into_response(),
        Ok(bytes) => Response::from_parts(parts, Body::from(bytes)),
        Err(error) => Problem::internal(error).into_response(),
    }
}
