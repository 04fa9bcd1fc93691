//! Events as API Gateway sends them, over test doubles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use everypage_api::{Api, Caller, Role, router};
use everypage_api_function::{TokenClaims, behind_gateway, handle};
use everypage_aws::{Clients, S3Blobs};
use everypage_core::{ids::TenantId, tenants::api_keys};
use everypage_function::ErrorName;
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::{Harness, Process};
use lambda_http::{Context, LambdaEvent};
use serde_json::{Value, json};

fn event(recorded: &str) -> Value {
    serde_json::from_str(recorded).unwrap()
}

fn request() -> Value {
    event(include_str!("../events/request.json"))
}

async fn answer(process: &Process, event: Value) -> Value {
    answer_of(Api::new(process.app.clone()), process, event).await
}

async fn answer_of(api: Api, process: &Process, event: Value) -> Value {
    let event = LambdaEvent::new(event, Context::default());
    handle(&process.app, &behind_gateway(router(api), TokenClaims::read(|_| None)), event).await.unwrap()
}

fn body(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_authorizer_authenticates_keys() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let caller = Caller { tenant: TenantId::new("acme"), user: "ann".into(), role: Role::Operator };
    let (_, secret) = api_keys::create(&process.app.store, caller, "test", "test").await.unwrap();
    let mut authorization = event(include_str!("../events/authorizer.json"));
    authorization["identitySource"] = json!([format!("Bearer {}", secret.expose())]);
    let authorized = answer(&process, authorization.clone()).await;
    assert_eq!(
        authorized,
        json!({ "isAuthorized": true, "context": { "tenant": "acme", "user": "ann", "role": "operator" } })
    );
    for invalid in ["", "Bearer ep_no", "Basic x", "Bearer"] {
        authorization["identitySource"] = json!([invalid]);
        assert_eq!(
            answer(&process, authorization.clone()).await,
            json!({ "isAuthorized": false }),
            "{invalid}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_sees_its_callers_tenant_only() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let listed = answer(&process, request()).await;
    assert_eq!((&listed["statusCode"], &body(&listed)["items"][0]["id"]), (&json!(200), &json!(id)));
    let mut foreign = request();
    foreign["requestContext"]["authorizer"]["lambda"]["tenant"] = json!("other");
    assert_eq!(body(&answer(&process, foreign).await)["items"], json!([]));
    let mut unknown = request();
    unknown["requestContext"].as_object_mut().unwrap().remove("authorizer");
    assert_eq!(answer(&process, unknown).await["statusCode"], json!(401));
}

/// The request of a caller with a token, which API Gateway has verified.
#[tokio::test(start_paused = true)]
async fn a_token_is_a_caller_of_the_tenant_that_it_names() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(2)).await.unwrap().job.id;
    let with_claims = |claims: Value| {
        let mut request = request();
        request["requestContext"]["authorizer"] = json!({ "jwt": { "claims": claims, "scopes": null } });
        request
    };
    let listed = answer(&process, with_claims(json!({ "tenant": "local", "sub": "ann" }))).await;
    assert_eq!(body(&listed)["items"][0]["id"], json!(id), "{listed}");
    let foreign = answer(&process, with_claims(json!({ "tenant": "other", "sub": "ann" }))).await;
    assert_eq!(body(&foreign)["items"], json!([]));
    for claims in [json!({ "sub": "ann" }), json!({ "tenant": "local", "sub": "ann", "role": "root" })] {
        assert_eq!(answer(&process, with_claims(claims.clone())).await["statusCode"], json!(401), "{claims}");
    }
    // Operators' routes are for operators.
    let mut breakers = with_claims(json!({ "tenant": "local", "sub": "ann" }));
    breakers["rawPath"] = json!("/v1/breakers");
    breakers["rawQueryString"] = json!("");
    assert_eq!(answer(&process, breakers.clone()).await["statusCode"], json!(403));
    breakers["requestContext"]["authorizer"]["jwt"]["claims"]["role"] = json!("operator");
    assert_eq!(answer(&process, breakers).await["statusCode"], json!(200));
}

#[tokio::test(start_paused = true)]
async fn a_document_can_be_submitted_in_the_body() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut posted = request();
    posted["requestContext"]["http"]["method"] = json!("POST");
    posted["rawQueryString"] = json!("pages=1");
    posted["headers"]["content-type"] = json!("application/pdf");
    posted["isBase64Encoded"] = json!(true);
    posted["body"] = json!(BASE64.encode(FakeDocument::mixed(2).bytes()));
    let accepted = answer(&process, posted).await;
    assert_eq!(accepted["statusCode"], json!(202), "{accepted}");
    assert_eq!(body(&accepted)["status"], json!("processing"));
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_limit_is_redirected_to_the_bucket() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let mut large = FakeDocument::mixed(1);
    large.pages[0].text = "words ".repeat(1 << 20);
    let id = process.submit(&large).await.unwrap().job.id;
    process.finish(&id).await;
    let mut get = request();
    get["rawPath"] = json!(format!("/v1/jobs/{id}/result"));
    get["rawQueryString"] = json!("format=markdown");
    let refused = answer(&process, get.clone()).await;
    assert_eq!(refused["statusCode"], json!(413));
    assert_eq!(refused["headers"]["content-type"], json!("application/problem+json"));
    assert_eq!(body(&refused)["code"], json!("answer_too_large"));

    let clients = Clients::connect(Some("http://127.0.0.1:9".into()), Some("eu-west-1".into())).await;
    let bucket = Arc::new(S3Blobs::new(clients.s3, "bucket"));
    let redirected =
        answer_of(Api::new(process.app.clone()).with_download_links(bucket), &process, get).await;
    assert_eq!(redirected["statusCode"], json!(303), "{redirected}");
    let link = redirected["headers"]["location"].as_str().unwrap();
    assert!(link.starts_with(&format!("http://127.0.0.1:9/bucket/jobs/{id}/result/v1.md?")), "{link}");
    assert!(link.contains("X-Amz-Signature=") && link.contains("response-content-type=text"), "{link}");
    assert_eq!(redirected["headers"]["everypage-result-version"], json!("1"));
}

#[tokio::test(start_paused = true)]
async fn an_image_over_the_limit_is_redirected_to_the_bucket() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    let key = format!("jobs/{id}/pages/1.jpg");
    process.app.blobs.delete(&key).await.unwrap();
    process.app.blobs.put_new(&key, vec![0xff; 5 << 20]).await.unwrap();
    let mut get = request();
    get["rawPath"] = json!(format!("/v1/jobs/{id}/pages/1/image"));
    get["rawQueryString"] = json!("");
    let clients = Clients::connect(Some("http://127.0.0.1:9".into()), Some("eu-west-1".into())).await;
    let bucket = Arc::new(S3Blobs::new(clients.s3, "bucket"));
    let redirected =
        answer_of(Api::new(process.app.clone()).with_download_links(bucket), &process, get).await;
    assert_eq!(redirected["statusCode"], json!(303), "{redirected}");
    let link = redirected["headers"]["location"].as_str().unwrap();
    assert!(link.starts_with(&format!("http://127.0.0.1:9/bucket/{key}?")), "{link}");
}

#[tokio::test(start_paused = true)]
async fn binary_bodies_are_encoded_as_base64() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let job = process.submit(&FakeDocument::mixed(2)).await.unwrap().job;
    let id = &job.id;
    process.finish(id).await;
    let mut get = request();
    get["rawPath"] = json!(format!("/v1/jobs/{id}/pages/2/image"));
    get["rawQueryString"] = json!("");
    let image = answer(&process, get.clone()).await;
    assert_eq!((&image["statusCode"], &image["isBase64Encoded"]), (&json!(200), &json!(true)), "{image}");
    let stored = process.app.blobs.get(&format!("jobs/{id}/pages/2.jpg")).await.unwrap();
    assert_eq!(BASE64.decode(image["body"].as_str().unwrap()).unwrap(), stored.unwrap());
    get["rawPath"] = json!(format!("/v1/jobs/{id}/result"));
    let text = answer(&process, get).await;
    assert_eq!((&text["statusCode"], &text["isBase64Encoded"]), (&json!(200), &json!(false)));
    assert!(text["body"].as_str().unwrap().starts_with("=== Page 1 ==="), "{text}");
}

/// API Gateway passes on what a client sent, and clients send anything.
#[tokio::test(start_paused = true)]
async fn a_malformed_url_gets_a_response() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    process.submit(&FakeDocument::mixed(1)).await.unwrap();
    for query in ["limit=1&x=<b> \"#\u{1}é", "limit=1&x=%zz%", "limit=1&&=&x[]={}|^`"] {
        let mut odd = request();
        odd["rawQueryString"] = json!(query);
        let answered = answer(&process, odd).await;
        assert_eq!(answered["statusCode"], json!(200), "{query}: {answered}");
    }
    for path in ["", "/", "//", "/v1/jobs/<x>", "/v1/jobs/%ff%00", "/v1/jobs/ \"é?#", "/v1/../../x"] {
        let mut odd = request();
        odd["rawPath"] = json!(path);
        let answered = answer(&process, odd).await;
        let status = if path.contains("%ff") { 400 } else { 404 };
        assert_eq!(answered["statusCode"], json!(status), "{path}: {answered}");
        assert_eq!(answered["headers"]["content-type"], json!("application/problem+json"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_event_is_a_clear_error() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let routes = behind_gateway(router(Api::new(process.app.clone())), TokenClaims::read(|_| None));
    for unknown in [json!({}), json!("x"), json!({ "rawPath": "/", "requestContext": {} })] {
        let event = LambdaEvent::new(unknown, Context::default());
        let failed = handle(&process.app, &routes, event).await.unwrap_err();
        assert_eq!((failed.name, failed.code.as_str()), (ErrorName::StepBroken, "unknown_event"));
    }
}
