//! Requests and answers as API Gateway writes them, in version 2.0 of its format.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings;
use axum::{
    body::{self, Body},
    http::{
        Request, Response, Uri,
        header::{CONTENT_TYPE, SET_COOKIE},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use everypage_api::MOST_CARRIED;
use everypage_function::FailedStep;
use serde_json::Value;

pub fn request(event: Value) -> Result<Request<Body>, FailedStep> {
    let event: ApiGatewayV2httpRequest = serde_json::from_value(event).map_err(FailedStep::unknown_event)?;
    let body = match event.body {
        None => Body::empty(),
        Some(text) if event.is_base64_encoded => {
            Body::from(BASE64.decode(text).map_err(FailedStep::unknown_event)?)
        }
        Some(text) => Body::from(text),
    };
    let path = event.raw_path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let address = match event.raw_query_string.as_deref().filter(|query| !query.is_empty()) {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let address: Uri = address.parse().map_err(FailedStep::unknown_event)?;
    let mut request = Request::builder().method(event.request_context.http.method).uri(address);
    if let Some(headers) = request.headers_mut() {
        *headers = event.headers;
    }
    request.body(body).map_err(FailedStep::unknown_event)
}

pub async fn answer(response: Response<Body>) -> Result<Value, FailedStep> {
    let (mut parts, body) = response.into_parts();
    let bytes = body::to_bytes(body, usize::MAX).await.map_err(FailedStep::unknown_event)?;
    if bytes.len() > MOST_CARRIED {
        return Ok(too_large(bytes.len()));
    }
    let mut answer = ApiGatewayV2httpResponse::default();
    answer.status_code = parts.status.as_u16().into();
    let cookies = parts.headers.get_all(SET_COOKIE).iter();
    answer.cookies = cookies.filter_map(|cookie| cookie.to_str().ok().map(str::to_owned)).collect();
    parts.headers.remove(SET_COOKIE);
    answer.headers = parts.headers;
    match String::from_utf8(bytes.into()) {
        Ok(text) => answer.body = Some(encodings::Body::Text(text)),
        Err(binary) => {
            answer.body = Some(encodings::Body::Text(BASE64.encode(binary.as_bytes())));
            answer.is_base64_encoded = true;
        }
    }
    serde_json::to_value(answer).map_err(FailedStep::unknown_event)
}

/// What Lambda could not carry would become a bare 500. Large results never come here: their readers
/// are sent to the bucket.
fn too_large(bytes: usize) -> Value {
    let detail = format!("the answer has {bytes} bytes and this API carries {MOST_CARRIED}; ask for less");
    let problem = serde_json::json!({
        "type": "urn:problem:everypage:answer_too_large", "title": "Answer too large", "status": 413, "code": "answer_too_large", "detail": detail,
    });
    serde_json::json!({
        "statusCode": 413,
        "headers": { CONTENT_TYPE.as_str(): "application/problem+json" },
        "body": problem.to_string(),
    })
}
