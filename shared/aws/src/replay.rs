//! Clients that get written answers, for what an emulator can't be made to say.

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

pub fn answer(status: u16, body: &str) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
}

/// Clients that get these answers in turn; the second value holds what they sent.
pub fn clients(answers: Vec<HttpResponse>) -> (Clients, StaticReplayClient) {
    let unchecked = || HttpRequest::new(SdkBody::empty());
    let events = answers.into_iter().map(|answer| ReplayEvent::new(unchecked(), answer)).collect();
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

/// What was sent, as JSON; `Null` where it was something else.
pub fn bodies(sent: &StaticReplayClient) -> Vec<Value> {
    let bytes = sent.actual_requests().map(|request| request.body().bytes().unwrap_or_default());
    bytes.map(|bytes| serde_json::from_slice(bytes).unwrap_or_default()).collect()
}
