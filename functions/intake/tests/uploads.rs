//! Objects from S3 notifications: each version becomes its own job, and no password stays readable.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Method, Response, StatusCode, Uri},
};
use everypage_aws::Stack;
use everypage_core::{
    dead_letters,
    digest::sha256_hex,
    ids::{JobId, Priority, TenantId},
    job::{jobs, passwords},
    notices::send,
    secret::Secret,
};
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::{Harness, Process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const KEY: &str = "incoming/acme/report.pdf";

/// A fake of S3 with one versioned bucket, for the calls that intake makes.
#[derive(Default)]
struct Bucket(Mutex<Vec<Object>>);

#[derive(Clone)]
struct Object {
    key: String,
    version: String,
    body: Vec<u8>,
    metadata: Vec<(&'static str, &'static str)>,
}

impl Bucket {
    fn put(&self, key: &str, version: &str, body: Vec<u8>) {
        self.put_with(key, version, body, vec![]);
    }

    fn put_with(&self, key: &str, version: &str, body: Vec<u8>, metadata: Vec<(&'static str, &'static str)>) {
        let (key, version) = (key.to_owned(), version.to_owned());
        self.0.lock().unwrap().push(Object { key, version, body, metadata });
    }

    fn keys(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|object| object.key.clone()).collect()
    }

    fn respond(&self, method: &Method, address: &Uri) -> Response<Body> {
        let key = address.path().trim_start_matches("/bucket/");
        let version =
            address.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("versionId="));
        let matches =
            |object: &Object| object.key == key && version.is_none_or(|version| object.version == version);
        let mut objects = self.0.lock().unwrap();
        if method == Method::DELETE {
            objects.retain(|object| !matches(object));
            return Response::builder().status(StatusCode::NO_CONTENT).body(Body::empty()).unwrap();
        }
        let Some(object) = objects.iter().rev().find(|object| matches(object)) else {
            let code = if version.is_some() { "NoSuchVersion" } else { "NoSuchKey" };
            let body = format!("<Error><Code>{code}</Code><Message>none</Message></Error>");
            return Response::builder().status(StatusCode::NOT_FOUND).body(Body::from(body)).unwrap();
        };
        let mut response = Response::builder().header("x-amz-version-id", &object.version);
        for (name, value) in &object.metadata {
            response = response.header(format!("x-amz-meta-{name}"), *value);
        }
        response.body(Body::from(object.body.clone())).unwrap()
    }
}

/// A stack over the fake bucket; everything else is in memory.
async fn stack(process: &Process) -> (Stack, Arc<Bucket>) {
    let bucket = Arc::<Bucket>::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let respond = async move |State(bucket): State<Arc<Bucket>>, method: Method, address: Uri| {
        bucket.respond(&method, &address)
    };
    let router = Router::new().fallback(respond).with_state(bucket.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (support::stack(process, &address).await, bucket)
}

/// The recorded notification, for this version of the document.
fn notification(version: &str) -> Value {
    let mut event: Value = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
    event["Records"][0]["s3"]["object"]["key"] = json!(KEY);
    event["Records"][0]["s3"]["object"]["versionId"] = json!(version);
    event
}

/// Handles a notification and returns its job, if there is one.
async fn job_of(stack: &Stack, version: &str) -> Option<JobId> {
    let output = handle(stack, notification(version)).await.unwrap();
    output["jobs"][0].as_str().map(JobId::new)
}

#[tokio::test]
async fn each_version_of_an_overwritten_object_becomes_its_own_job() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    let documents = [FakeDocument::mixed(1).bytes(), FakeDocument::mixed(2).bytes()];
    bucket.put(KEY, "v1", documents[0].clone());
    bucket.put(KEY, "v2", documents[1].clone());
    for (version, document) in [("v1", &documents[0]), ("v2", &documents[1])] {
        let id = job_of(&stack, version).await.unwrap();
        assert_eq!(process.job(&id).await.received.document.sha256, sha256_hex(document), "{version}");
        assert_eq!(job_of(&stack, version).await, Some(id), "notified twice, one job");
    }
    assert_eq!(job_of(&stack, "deleted").await, None);
}

#[tokio::test]
async fn notifications_come_through_the_queue_and_only_those_that_failed_are_reported() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    let message = |id: &str, body: &str| json!({ "messageId": id, "eventSource": "aws:sqs", "body": body });
    let upload = notification("v1").to_string();
    let event = json!({ "Records": [
        message("test", r#"{"Service":"Amazon S3","Event":"s3:TestEvent"}"#),
        message("upload", &upload),
        message("twice", &upload),
        message("garbage", "not JSON"),
    ] });
    let output = handle(&stack, event).await.unwrap();
    assert_eq!(output, json!({ "batchItemFailures": [{ "itemIdentifier": "garbage" }] }));
    let jobs = jobs::list(&process.app.store, &TenantId::new("acme"), 10).await.unwrap();
    assert_eq!(jobs.len(), 1, "notified twice, one job");
}

#[tokio::test]
async fn a_password_in_an_options_file_is_sealed_and_the_file_deleted() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    let options = json!({ "Password": "harbour", "priority": "high" }).to_string();
    bucket.put(&format!("{KEY}.json"), "s1", options.into_bytes());
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    let id = job_of(&stack, "v1").await.unwrap();
    assert_eq!(process.job(&id).await.received.options.priority, Priority::High);
    assert_eq!(
        passwords::open(&process.app.store, process.app.vault.as_ref(), &id).await.unwrap(),
        Some(Secret::new("harbour"))
    );
    assert_eq!(bucket.keys(), [KEY]);
    assert_eq!(job_of(&stack, "v1").await, Some(id), "notified twice, one job");
}

#[tokio::test]
async fn an_options_file_without_a_password_is_kept_for_the_next_version() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    bucket.put(&format!("{KEY}.json"), "s1", json!({ "priority": "high" }).to_string().into_bytes());
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    job_of(&stack, "v1").await.unwrap();
    assert_eq!(bucket.keys().len(), 2);
}

#[tokio::test]
async fn a_password_in_an_objects_metadata_is_refused_with_a_reason() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    bucket.put_with(KEY, "v1", FakeDocument::mixed(1).bytes(), vec![("password", "harbour")]);
    assert_eq!(job_of(&stack, "v1").await, None);
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    assert_eq!(dead_letters.len(), 1);
    let reason = &dead_letters[0].value.reason;
    assert!(reason.contains("report.pdf.json") && !reason.contains("harbour"), "{reason}");
}

#[tokio::test]
async fn an_object_of_an_unknown_tenant_is_refused_and_the_operator_notified() {
    let harness = Harness::new(&[("TENANTS", "acme,globex"), ("DEFAULT_RESPONSIBLE", "ann@example.org")]);
    let process = harness.start("a");
    let (stack, bucket) = stack(&process).await;
    bucket.put("incoming/acem/report.pdf", "v1", FakeDocument::mixed(1).bytes());
    let mut event = notification("v1");
    event["Records"][0]["s3"]["object"]["key"] = json!("incoming/acem/report.pdf");
    assert_eq!(handle(&stack, event).await.unwrap()["jobs"], json!([]));
    let dead_letter = dead_letters::waiting(&process.app.store, 10).await.unwrap().remove(0).value;
    assert!(dead_letter.reason.contains("unknown tenant \"acem\""), "{}", dead_letter.reason);
    assert_eq!(dead_letter.tenant.as_str(), "local", "the operator of the installation sees it");
    send::send_due(&process.app.notices).await.unwrap();
    assert_eq!(harness.notifier.notices()[0].responsible.as_deref(), Some("ann@example.org"));
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    job_of(&stack, "v1").await.unwrap();
}
