//! A service over test doubles, and requests to it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use everypage_api::{Api, Caller, Role, router};
use everypage_core::{
    ids::{JobId, TenantId},
    ports::{
        Fault,
        uploads::{UploadLink, UploadLinks},
    },
};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::{Harness, Process};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub struct Service {
    pub harness: Harness,
    pub process: Process,
    pub router: Router,
}

pub fn caller(tenant: &str, role: Role) -> Caller {
    Caller { tenant: TenantId::new(tenant), user: format!("user of {tenant}"), role }
}

pub fn user() -> Caller {
    caller("acme", Role::User)
}

pub fn operator() -> Caller {
    caller("acme", Role::Operator)
}

pub fn other_tenant() -> Caller {
    caller("other", Role::Operator)
}

impl Service {
    pub fn new(pairs: &[(&str, &str)]) -> Self {
        Self::of(Harness::new(pairs), |api| api)
    }

    pub fn of(harness: Harness, change: impl FnOnce(Api) -> Api) -> Self {
        let process = harness.start("a");
        let router = router(change(Api::new(process.app.clone())));
        Self { harness, process, router }
    }

    pub async fn send(&self, caller: Option<Caller>, mut request: Request<Body>) -> Answer {
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let response = self.router.clone().oneshot(request).await.expect("routers do not fail");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        answer.is_well_formed();
        answer
    }

    pub async fn get(&self, caller: Caller, path: &str) -> Answer {
        self.send(Some(caller), request("GET", path, "", vec![])).await
    }

    pub async fn post(&self, caller: Caller, path: &str, json: &str) -> Answer {
        self.send(Some(caller), request("POST", path, "application/json", json.as_bytes().to_vec())).await
    }

    /// Submits a document as the body.
    pub async fn submit(&self, caller: Caller, query: &str, document: &FakeDocument) -> Answer {
        let path = format!("/v1/jobs{query}");
        self.send(Some(caller), request("POST", &path, "application/pdf", document.bytes())).await
    }

    /// The id of a new job.
    pub async fn job(&self, query: &str, document: &FakeDocument) -> String {
        let answer = self.submit(user(), query, document).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
        answer.text("/id")
    }

    /// The id of a job that has ended.
    pub async fn finished(&self, document: &FakeDocument) -> String {
        let id = self.job("", document).await;
        self.process.finish(&JobId::new(&id)).await;
        id
    }

    /// The id of a job that waits for approval.
    pub async fn proposed(&self, query: &str, document: &FakeDocument) -> String {
        let id = self.job(query, document).await;
        self.process.kill_after(&JobId::new(&id), Duration::from_secs(1)).await;
        let seen = self.get(user(), &format!("/v1/jobs/{id}")).await;
        assert_eq!(seen.text("/status"), "awaiting_approval", "{seen:?}");
        id
    }
}

pub fn request(method: &str, path: &str, media_type: &str, body: Vec<u8>) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path);
    if !media_type.is_empty() {
        builder = builder.header("content-type", media_type);
    }
    builder.body(Body::from(body)).expect("a request")
}

pub fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().expect("a header"));
    request
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> String {
        let json = self.json();
        let found = json.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no text at {pointer}: {json:#}")).to_owned()
    }

    pub fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    pub fn items(&self) -> Vec<Value> {
        self.at("/items").as_array().cloned().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Asserts that the response is a problem with this status and code.
    #[track_caller]
    pub fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status.as_u16(), self.text("/code").as_str()), (status, code), "{self:?}");
        self
    }

    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.text("/detail").contains(words), "{self:?}");
        self
    }

    fn is_well_formed(&self) {
        assert_ne!(self.header("x-request-id"), "");
        if self.status.is_client_error() || self.status.is_server_error() {
            assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
            assert_eq!(self.at("/status"), self.status.as_u16(), "{self:?}");
            assert_eq!(self.text("/type"), format!("urn:problem:everypage:{}", self.text("/code")));
            assert!(!self.text("/title").is_empty() && !self.text("/detail").is_empty(), "{self:?}");
        }
    }
}

/// Links that record their keys.
#[derive(Default)]
pub struct FakeLinks(Mutex<Vec<String>>);

impl FakeLinks {
    /// The key of the oldest link that was not taken yet.
    pub fn take(&self) -> String {
        self.0.lock().expect("one thread").remove(0)
    }
}

#[async_trait]
impl UploadLinks for FakeLinks {
    async fn put(&self, key: &str, _: Duration) -> Result<UploadLink, Fault> {
        self.0.lock().expect("one thread").push(key.to_owned());
        let headers = vec![("content-type".to_owned(), "application/pdf".to_owned())];
        Ok(UploadLink { method: "PUT", url: format!("https://store.example/{key}?signed"), headers })
    }
}

impl Service {
    pub fn with_upload_links(pairs: &[(&str, &str)]) -> (Self, Arc<FakeLinks>) {
        let links = Arc::new(FakeLinks::default());
        (Self::of(Harness::new(pairs), |api| api.with_upload_links(links.clone())), links)
    }
}
