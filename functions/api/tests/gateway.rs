//! Events as API Gateway sends them, on memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use everypage_api::{Api, Caller, Role, router};
use everypage_api_function::handle;
use everypage_aws::{Clients, S3Blobs};
use everypage_core::{domain::ids::TenantId, store::keys};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::world::{Process, World};
use serde_json::{Value, json};

fn event(recorded: &str) -> Value {
    serde_json::from_str(recorded).unwrap()
}

fn request() -> Value {
    event(include_str!("../events/request.json"))
}

async fn answer(process: &Process, event: Value) -> Value {
    let router = router(Api::new(process.app.clone()));
    handle(&process.app, &router, event).await.unwrap()
}

fn body(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_authorizer_knows_whose_key_it_is() {
    let world = World::new(&[]);
    let process = world.start("a");
    let caller = Caller { tenant: TenantId::new("acme"), user: "ann".into(), role: Role::Operator };
    let (_, secret) = keys::create(&process.app, caller, "test").await.unwrap();
    let mut question = event(include_str!("../events/authorizer.json"));
    question["identitySource"] = json!([format!("Bearer {}", secret.expose())]);
    let known = answer(&process, question.clone()).await;
    assert_eq!(
        known,
        json!({ "isAuthorized": true, "context": { "tenant": "acme", "user": "ann", "role": "operator" } })
    );
    for strange in ["", "Bearer ep_no", "Basic x", "Bearer"] {
        question["identitySource"] = json!([strange]);
        assert_eq!(answer(&process, question.clone()).await, json!({ "isAuthorized": false }), "{strange}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_for_the_callers_tenant() {
    let world = World::new(&[]);
    let process = world.start("a");
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

#[tokio::test(start_paused = true)]
async fn a_document_may_come_in_the_body() {
    use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
    let world = World::new(&[]);
    let process = world.start("a");
    let mut posted = request();
    posted["requestContext"]["http"]["method"] = json!("POST");
    posted["rawQueryString"] = json!("pages=1");
    posted["headers"]["content-type"] = json!("application/pdf");
    posted["isBase64Encoded"] = json!(true);
    posted["body"] = json!(BASE64.encode(FakeDocument::mixed(2).bytes()));
    let accepted = answer(&process, posted).await;
    assert_eq!(accepted["statusCode"], json!(202), "{accepted}");
    assert_eq!(body(&accepted)["status"], json!("queued"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_no_answer_can_carry_is_read_from_the_bucket() {
    let world = World::new(&[]);
    let process = world.start("a");
    let mut large = FakeDocument::mixed(1);
    large.pages[0].text = "words ".repeat(1 << 20);
    let id = process.submit(&large).await.unwrap().job.id;
    process.finish(&id).await;
    let mut asked = request();
    asked["rawPath"] = json!(format!("/v1/jobs/{id}/result"));
    asked["rawQueryString"] = json!("format=markdown");
    assert_eq!(answer(&process, asked.clone()).await["statusCode"], json!(413));

    let clients = Clients::connect(Some("http://127.0.0.1:9".into()), Some("eu-west-1".into())).await;
    let bucket = Arc::new(S3Blobs::new(clients.s3, "bucket"));
    let router = router(Api::new(process.app.clone()).with_downloads(bucket));
    let sent_on = handle(&process.app, &router, asked).await.unwrap();
    assert_eq!(sent_on["statusCode"], json!(303), "{sent_on}");
    let link = sent_on["headers"]["location"].as_str().unwrap();
    assert!(link.starts_with(&format!("http://127.0.0.1:9/bucket/jobs/{id}/result/v1.md?")), "{link}");
    assert!(link.contains("X-Amz-Signature=") && link.contains("response-content-type=text"), "{link}");
    assert_eq!(sent_on["headers"]["everypage-result-version"], json!("1"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_request_is_a_clear_error() {
    let world = World::new(&[]);
    let process = world.start("a");
    let router = router(Api::new(process.app.clone()));
    for strange in [json!({}), json!("x"), json!({ "rawPath": "\u{0}", "requestContext": {} })] {
        let failed = handle(&process.app, &router, strange).await;
        assert!(
            failed.is_err() || failed.unwrap()["statusCode"].as_u64().is_some_and(|status| status >= 400)
        );
    }
}
