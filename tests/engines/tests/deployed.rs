//! The stories on the stack as it is deployed, and what only it can show.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, http::HeaderMap, routing::post};
use everypage_core::{
    domain::{
        caller::{Caller, Role},
        ids::TenantId,
        job::State,
        webhook,
    },
    store::{keys, webhooks},
};
use everypage_engines::{
    bench::{Bench, Document, ended, tenant, until},
    cloud::{Deployed, NAME, PROVIDER_KEY, REGION, http},
    program,
    stories::{self, LOCKED_WITH},
};
use everypage_testkit::paper;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn stories_on_the_deployed_stack() {
    let bench = Deployed::start().await;
    stories::common(&bench).await;
    stories::a_poisonous_page(&bench, "poison", async |job| stories::redrive_letter(&bench, job).await).await;
    stories::a_poisonous_page(&bench, "native", async |_| redrive_as_the_console_does(&bench).await).await;
    futures::join!(
        the_api_takes_documents(&bench),
        the_command_line_submits(&bench),
        a_tenants_server_is_told(&bench)
    );
    twenty_documents_at_once(&bench).await;
    nothing_leaked(&bench);
}

/// The functions log all there is, and none of it is a document's text, a prompt, a password or a key.
fn nothing_leaked(bench: &Deployed) {
    let logs = bench.logs();
    assert!(logs.contains("page read") && logs.contains("model call failed"), "nothing is logged");
    for words in ["from a shell", "in the body", "by a link", "tell me", "document 7", "second page"] {
        assert!(!logs.contains(words), "a document's words: {words}");
    }
    for secret in [PROVIDER_KEY, LOCKED_WITH, "not-the-one", "You transcribe", "whsec_", "ep_"] {
        assert!(!logs.contains(secret), "a prompt, password or key: {secret}");
    }
}

/// `everypage submit`, and what it can tell afterwards; a stack's parts are found by its name.
async fn the_command_line_submits(bench: &Deployed) {
    tenant(&bench.app(), "shell", &[]).await;
    let everypage = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(program("everypage"));
        command
            .args(["--engine", "aws", "--stack", NAME, "--region", REGION, "--endpoint", &bench.endpoint])
            .args(arguments)
            .env_clear()
            .env("TENANT", "shell");
        let output = command.output().await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {err}");
        out.into_owned()
    };
    let file = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    std::fs::write(file.path(), paper::saying(&["from a shell"])).unwrap();
    let text = everypage(&["submit", file.path().to_str().unwrap()]).await;
    assert!(text.contains("from a shell\n\n[read by shell-one]"), "{text}");
    let jobs = everypage(&["jobs", "list"]).await;
    assert!(jobs.contains("success"), "{jobs}");
    assert!(everypage(&["breakers"]).await.contains("failover-one"));
    assert!(everypage(&["config", "check"]).await.contains(NAME));
}

/// "Start DLQ redrive" of the SQS console.
async fn redrive_as_the_console_does(bench: &Deployed) {
    let arn = format!("arn:aws:sqs:{REGION}:000000000000:{NAME}-normal-dlq");
    bench.clients.sqs.start_message_move_task().source_arn(arn).send().await.unwrap();
}

/// With a key, over HTTP: in the body, and by a link for large ones.
async fn the_api_takes_documents(bench: &Deployed) {
    tenant(&bench.app(), "web", &[]).await;
    let caller =
        |tenant: &str| Caller { tenant: TenantId::new(tenant), user: "ann".into(), role: Role::User };
    let (_, key) = keys::create(&bench.app(), caller("web"), "test").await.unwrap();
    let (_, foreign) = keys::create(&bench.app(), caller("other"), "test").await.unwrap();
    let (http, api) = (http(), bench.output("ApiUrl"));
    let ask = async |call: reqwest::RequestBuilder, key: &str| -> (u16, Value) {
        let answer = call.header("authorization", format!("Bearer {key}")).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    };
    let done = async |id: &str| {
        until(&format!("success of {id}"), Duration::from_secs(120), async || {
            let (_, job) = ask(http.get(format!("{api}/v1/jobs/{id}")), key.expose()).await;
            (job["status"] == "success").then_some(())
        })
        .await;
        ask(http.get(format!("{api}/v1/jobs/{id}/result?format=text")), key.expose()).await
    };
    let posted = http.post(format!("{api}/v1/jobs")).header("content-type", "application/pdf");
    let (status, job) = ask(posted.body(paper::saying(&["in the body"])), key.expose()).await;
    assert_eq!(status, 202, "{job}");
    let id = job["id"].as_str().unwrap();
    let (status, text) = done(id).await;
    assert_eq!(status, 200);
    assert!(text.as_str().unwrap().contains("in the body\n\n[read by web-one]"), "{text}");
    assert_eq!(ask(http.get(format!("{api}/v1/jobs/{id}")), foreign.expose()).await.0, 404);
    assert_eq!(ask(http.get(format!("{api}/v1/dlq")), key.expose()).await.0, 403);
    let strangers = ask(http.get(format!("{api}/v1/jobs")), "ep_nobody").await.0;
    assert!(matches!(strangers, 401 | 403), "{strangers}");

    let wish = json!({ "upload": true, "name": "large.pdf" }).to_string();
    let asked = http.post(format!("{api}/v1/jobs")).header("content-type", "application/json").body(wish);
    let (status, upload) = ask(asked, key.expose()).await;
    assert_eq!((status, &upload["status"]), (201, &json!("awaiting_upload")), "{upload}");
    let mut put = http.put(upload["upload"]["url"].as_str().unwrap()).body(paper::saying(&["by a link"]));
    for (name, value) in upload["upload"]["headers"].as_object().unwrap() {
        put = put.header(name, value.as_str().unwrap());
    }
    assert!(put.send().await.unwrap().status().is_success());
    let (_, text) = done(upload["id"].as_str().unwrap()).await;
    assert!(text.as_str().unwrap().contains("by a link\n\n[read by web-one]"), "{text}");
}

/// By the sweep, signed, and in the job's trace.
async fn a_tenants_server_is_told(bench: &Deployed) {
    tenant(&bench.app(), "hooked", &[]).await;
    let told: Arc<Mutex<Vec<(HeaderMap, String)>>> = Arc::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let router = Router::new().route("/hooks", {
        let told = told.clone();
        post(async move |headers: HeaderMap, body: String| told.lock().unwrap().push((headers, body)))
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let secret = webhooks::set(&bench.app(), &TenantId::new("hooked"), &url).await.unwrap();
    let bytes = paper::saying(&["tell me"]);
    let document = Document { tenant: "hooked", name: "a.pdf", bytes, password: None, traceparent: None };
    let id = bench.submit(document).await;
    let job = ended(bench, &id, Duration::from_secs(150)).await;
    let (headers, body) = until("a webhook", Duration::from_secs(90), async || {
        bench.sweep().await;
        told.lock().unwrap().first().cloned()
    })
    .await;
    let header = |name: &str| headers[name].to_str().unwrap();
    let (message, time) = (header("webhook-id"), header("webhook-timestamp").parse().unwrap());
    assert_eq!(header("webhook-signature"), webhook::sign(&secret, message, time, &body));
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("job.success"), &json!(id)));
    assert!(header("traceparent").contains(&job.trace().trace_id()));
}

async fn twenty_documents_at_once(bench: &Deployed) {
    tenant(&bench.app(), "crowd", &[("JOB_TIMEOUT", "5m")]).await;
    let jobs = join_all((1..=20).map(async |number: u32| {
        let name = format!("{number}.pdf");
        let bytes = paper::saying(&[&format!("document {number}"), "second page"]);
        let id = bench
            .submit(Document { tenant: "crowd", name: &name, bytes, password: None, traceparent: None })
            .await;
        ended(bench, &id, Duration::from_secs(300)).await
    }));
    let mut read = 0;
    for job in jobs.await {
        assert_eq!(job.state, State::Audited);
        let metadata = &job.result.as_ref().unwrap().metadata;
        assert_eq!((metadata.total_pages, metadata.timeout_occurred), (2, false));
        read += metadata.ai_pages_succeeded;
    }
    // A message is visible again after 8 s here, so a machine busy with other things may give up a page,
    // as it should: it has MuPDF's text then, and a dead letter.
    assert!(read >= 36, "AI read {read} of 40 pages");
}
