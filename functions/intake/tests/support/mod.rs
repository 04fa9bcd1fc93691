//! A stack whose use cases work on memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use everypage_aws::{Clients, S3Blobs, SfnFlow, SqsQueue, Stack, StackResources};
use everypage_core::domain::ids::{JobId, Priority};
use everypage_testkit::memory::MemoryRecords;
use everypage_tests::harness::Process;
use serde_json::{Value, json};

/// For adapters that have nowhere to go.
#[allow(dead_code, reason = "not every test's adapters have nowhere to go")]
pub const NOWHERE: &str = "http://127.0.0.1:9";

/// What intake answers to a step of the state machine about this job.
#[allow(dead_code, reason = "not every test goes step by step")]
pub async fn ask(stack: &Stack, job: &JobId, mut step: Value) -> Value {
    step["job_id"] = json!(job);
    everypage_intake::handle(stack, step).await.unwrap()
}

pub async fn stack(process: &Process, endpoint: &str) -> Stack {
    let clients = Clients::connect(Some(endpoint.into()), Some("eu-west-1".into())).await;
    let lanes: BTreeMap<_, _> =
        Priority::ALL.into_iter().map(|lane| (lane, format!("https://q/{lane:?}"))).collect();
    Stack {
        app: process.app.clone(),
        resources: StackResources::read(|name| Some(name.to_owned())).unwrap(),
        blobs: Arc::new(S3Blobs::new(clients.s3, "bucket")),
        queue: Arc::new(SqsQueue::new(clients.sqs, lanes).unwrap()),
        flow: Arc::new(SfnFlow::new(clients.sfn, "arn", Arc::new(MemoryRecords::default()))),
    }
}
