//! API Gateway's requests and answers, as lambda_http translates them, and what it leaves to us: who
//! calls, addresses that can't be built, answers that can't be carried.

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use everypage_api::{Caller, MOST_CARRIED, Problem};
use everypage_function::FailedStep;
use lambda_http::{
    Adapter, LambdaEvent,
    aws_lambda_events::apigw::ApiGatewayV2httpRequest,
    request::{LambdaRequest, RequestContext},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;
use tower::ServiceExt;

/// What API Gateway lets through in a query and no address may have.
const NOT_IN_QUERIES: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// The routes, as requests of API Gateway come to them.
pub fn behind_gateway(routes: Router) -> Router {
    routes.layer(middleware::from_fn(within_limits)).layer(middleware::map_request(from_caller))
}

/// Answers an event in version 2.0 of API Gateway's format.
pub(crate) async fn answer(routes: &Router, event: LambdaEvent<Value>) -> Result<Value, FailedStep> {
    let LambdaEvent { payload, context, .. } = event;
    let mut request: ApiGatewayV2httpRequest =
        serde_json::from_value(payload).map_err(FailedStep::unknown_event)?;
    // lambda_http panics where no address can be built.
    if let Some(query) = &mut request.raw_query_string {
        *query = utf8_percent_encode(query, &NOT_IN_QUERIES).to_string();
    }
    let event = LambdaEvent::new(LambdaRequest::ApiGatewayV2(request), context);
    let Ok(answer) = Adapter::from(routes.clone()).oneshot(event).await;
    serde_json::to_value(answer).map_err(FailedStep::unknown_event)
}

/// Tells the routes whom the authorizer recognized. Routes that are open have nobody.
async fn from_caller(mut request: Request) -> Request {
    let context = request.extensions().get::<RequestContext>();
    let caller = context.and_then(RequestContext::authorizer).and_then(|known| {
        let fields = known.fields.clone().into_iter().collect();
        serde_json::from_value::<Caller>(Value::Object(fields)).ok()
    });
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    request
}

/// What Lambda could not carry would become a bare 500. Large results never come here: their readers
/// are sent to the bucket.
async fn within_limits(request: Request, next: Next) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) if bytes.len() > MOST_CARRIED => Problem::answer_too_large(bytes.len()).into_response(),
        Ok(bytes) => Response::from_parts(parts, Body::from(bytes)),
        Err(error) => Problem::internal(error).into_response(),
    }
}
