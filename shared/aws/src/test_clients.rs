//! Clients with prepared responses, for cases that an emulator can't produce.

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_s3::{
    config::{
        Credentials, SharedCredentialsProvider,
        http::{HttpRequest, HttpResponse},
    },
    primitives::SdkBody,
};
use aws_smithy_http_client::test_util::{ReplayEvent, StaticReplayClient};
use serde_json::Value;

use crate::Clients;

pub fn response(status: u16, body: &str) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
}

/// Clients that receive these responses in order; the second value records what they sent.
pub fn clients(responses: Vec<HttpResponse>) -> (Clients, StaticReplayClient) {
    let unchecked = || HttpRequest::new(SdkBody::empty());
    let events = responses.into_iter().map(|response| ReplayEvent::new(unchecked(), response)).collect();
    let sent = StaticReplayClient::new(events);
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url("http://127.0.0.1:1")
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("k", "s", None, None, "test")))
        .retry_config(RetryConfig::disabled())
        .http_client(sent.clone())
        .build();
    (Clients::new(&config, true), sent)
}

/// The bodies that were sent, as JSON; `Null` for those that are not JSON.
pub fn bodies(sent: &StaticReplayClient) -> Vec<Value> {
    let bytes = sent.actual_requests().map(|request| request.body().bytes().unwrap_or_default());
    bytes.map(|bytes| serde_json::from_slice(bytes).unwrap_or_default()).collect()
}
