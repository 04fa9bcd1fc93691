//! A stack whose use cases run on in-memory adapters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use everypage_aws::{Clients, S3Blobs, SfnFlow, SqsQueue, Stack, StackResources};
use everypage_core::{
    ids::{JobId, Priority},
    ports::records::Records,
};
use everypage_testkit::memory::MemoryRecords;
use everypage_tests::harness::Process;
use serde_json::{Value, json};

/// An endpoint for adapters that a test does not call.
#[allow(dead_code, reason = "not used by every test")]
pub const NO_ENDPOINT: &str = "http://127.0.0.1:9";

/// Runs a step of the state machine for this job and returns its output.
#[allow(dead_code, reason = "not used by every test")]
pub async fn run_step(stack: &Stack, job: &JobId, mut step: Value) -> Value {
    step["job_id"] = json!(job);
    everypage_intake::handle(stack, step).await.unwrap()
}

#[allow(dead_code, reason = "not used by every test")]
pub async fn stack(process: &Process, endpoint: &str) -> Stack {
    stack_on(process, endpoint, Arc::new(MemoryRecords::default())).await
}

/// A stack whose task tokens are in `records`.
pub async fn stack_on(process: &Process, endpoint: &str, records: Arc<dyn Records>) -> Stack {
    let clients = Clients::connect(Some(endpoint.into()), Some("eu-west-1".into())).await;
    let lanes: BTreeMap<_, _> =
        Priority::ALL.into_iter().map(|lane| (lane, format!("https://q/{lane:?}"))).collect();
    Stack {
        app: process.app.clone(),
        resources: StackResources::read(|name| Some(name.to_owned())).unwrap(),
        blobs: Arc::new(S3Blobs::new(clients.s3, "bucket")),
        queue: Arc::new(SqsQueue::new(clients.sqs, lanes).unwrap()),
        flow: Arc::new(SfnFlow::new(clients.sfn, "arn", records)),
    }
}
