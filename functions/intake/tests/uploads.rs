//! Objects as S3 tells of them: each version as it was put there, and no password that stays.

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
    domain::{
        event::sha256_hex,
        ids::{JobId, Priority},
        secret::Secret,
    },
    store::{dead, secrets},
};
use everypage_intake::handle;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::{Harness, Process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const KEY: &str = "incoming/acme/report.pdf";

/// What S3 does with the calls of intake, for one bucket that keeps versions.
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

    fn answer(&self, method: &Method, address: &Uri) -> Response<Body> {
        let key = address.path().trim_start_matches("/bucket/");
        let version =
            address.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("versionId="));
        let named =
            |object: &Object| object.key == key && version.is_none_or(|version| object.version == version);
        let mut objects = self.0.lock().unwrap();
        if method == Method::DELETE {
            objects.retain(|object| !named(object));
            return Response::builder().status(StatusCode::NO_CONTENT).body(Body::empty()).unwrap();
        }
        let Some(object) = objects.iter().rev().find(|object| named(object)) else {
            let code = if version.is_some() { "NoSuchVersion" } else { "NoSuchKey" };
            let body = format!("<Error><Code>{code}</Code><Message>none</Message></Error>");
            return Response::builder().status(StatusCode::NOT_FOUND).body(Body::from(body)).unwrap();
        };
        let mut answer = Response::builder().header("x-amz-version-id", &object.version);
        for (name, value) in &object.metadata {
            answer = answer.header(format!("x-amz-meta-{name}"), *value);
        }
        answer.body(Body::from(object.body.clone())).unwrap()
    }
}

/// A stack over a bucket; the rest of it is memory.
async fn stack(process: &Process) -> (Stack, Arc<Bucket>) {
    let bucket = Arc::<Bucket>::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = async move |State(bucket): State<Arc<Bucket>>, method: Method, address: Uri| {
        bucket.answer(&method, &address)
    };
    let router = Router::new().fallback(answer).with_state(bucket.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (support::stack(process, &address).await, bucket)
}

/// The recorded notification, of this version of the document.
fn notice(version: &str) -> Value {
    let mut event: Value = serde_json::from_str(include_str!("../events/upload.json")).unwrap();
    event["Records"][0]["s3"]["object"]["key"] = json!(KEY);
    event["Records"][0]["s3"]["object"]["versionId"] = json!(version);
    event
}

/// The one job that a notification made, if any.
async fn job_of(stack: &Stack, version: &str) -> Option<JobId> {
    let answer = handle(stack, notice(version)).await.unwrap();
    answer["jobs"][0].as_str().map(JobId::new)
}

#[tokio::test]
async fn a_document_that_was_put_over_another_takes_nothing_from_it() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    let documents = [FakeDocument::mixed(1).bytes(), FakeDocument::mixed(2).bytes()];
    bucket.put(KEY, "v1", documents[0].clone());
    bucket.put(KEY, "v2", documents[1].clone());
    for (version, document) in [("v1", &documents[0]), ("v2", &documents[1])] {
        let id = job_of(&stack, version).await.unwrap();
        assert_eq!(process.job(&id).await.received.document.sha256, sha256_hex(document), "{version}");
        assert_eq!(job_of(&stack, version).await, Some(id), "told twice, one job");
    }
    assert_eq!(job_of(&stack, "deleted-for-good").await, None);
}

#[tokio::test]
async fn a_password_beside_a_document_is_sealed_and_then_gone() {
    let process = Harness::new(&[]).start("a");
    let (stack, bucket) = stack(&process).await;
    let beside = json!({ "Password": "harbour", "priority": "high" }).to_string();
    bucket.put(&format!("{KEY}.json"), "s1", beside.into_bytes());
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    let id = job_of(&stack, "v1").await.unwrap();
    assert_eq!(process.job(&id).await.received.options.priority, Priority::High);
    assert_eq!(secrets::open(&process.app, &id).await.unwrap(), Some(Secret::new("harbour")));
    assert_eq!(bucket.keys(), [KEY]);
    assert_eq!(job_of(&stack, "v1").await, Some(id), "told twice, one job");
}

#[tokio::test]
async fn options_without_a_password_stay_for_the_next_version() {
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
    let letters = dead::waiting(&process.app, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    let reason = &letters[0].value.reason;
    assert!(reason.contains("report.pdf.json") && !reason.contains("harbour"), "{reason}");
}

#[tokio::test]
async fn a_tenant_that_there_is_not_is_refused_and_somebody_is_told() {
    let harness = Harness::new(&[("TENANTS", "acme,globex"), ("DEFAULT_RESPONSIBLE", "ann@example.org")]);
    let process = harness.start("a");
    let (stack, bucket) = stack(&process).await;
    bucket.put("incoming/acem/report.pdf", "v1", FakeDocument::mixed(1).bytes());
    let mut told = notice("v1");
    told["Records"][0]["s3"]["object"]["key"] = json!("incoming/acem/report.pdf");
    assert_eq!(handle(&stack, told).await.unwrap()["jobs"], json!([]));
    let letter = dead::waiting(&process.app, 10).await.unwrap().remove(0).value;
    assert!(letter.reason.contains("there is no tenant acem here"), "{}", letter.reason);
    assert_eq!(letter.tenant.as_str(), "local", "whoever runs the installation sees it");
    assert_eq!(harness.notifier.notices()[0].responsible.as_deref(), Some("ann@example.org"));
    bucket.put(KEY, "v1", FakeDocument::mixed(1).bytes());
    job_of(&stack, "v1").await.unwrap();
}
