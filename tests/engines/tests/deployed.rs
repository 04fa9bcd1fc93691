//! The stories on the stack as it is deployed, and what only it can show.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_sqs::types::QueueAttributeName;
use axum::{Router, http::HeaderMap, routing::post};
use everypage_core::{
    domain::{
        caller::{Caller, Role},
        ids::TenantId,
        job::State,
        webhook,
    },
    store::{jobs, keys, webhooks},
    usecases::heal,
};
use everypage_engines::{
    bench::{Bench, Document, ended, tenant, until},
    cloud::{Deployed, NAME, PAYMENT_KEY, PROVIDER_KEY, REGION, http},
    inbox::{Inbox, received},
    shell::{self, Shell},
    stories::{self, LOCKED_WITH},
};
use everypage_testkit::sample_pdf;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn stories_on_the_deployed_stack() {
    let bench = Deployed::start().await;
    let inbox = Inbox::of_topic(&bench.clients, &bench.output("TopicArn")).await;
    stories::common(&bench).await;
    stories::a_poisonous_page(&bench, "poison", async |job| stories::redrive_letter(&bench, job).await).await;
    stories::a_poisonous_page(&bench, "native", async |_| redrive_as_the_console_does(&bench).await).await;
    people_are_told(&inbox).await;
    many_pages_wait_at_once(&bench).await;
    futures::join!(
        a_failure_that_can_not_be_recorded_is_told(&bench, &inbox),
        shell::every_command_works(&bench),
        the_api_takes_documents(&bench),
        the_api_mends_and_stops(&bench),
        the_api_sells_credits(&bench),
        the_command_line_submits(&bench),
        a_tenants_server_is_told(&bench),
        a_document_put_over_another_is_read_too(&bench),
    );
    twenty_documents_at_once(&bench).await;
    no_password_stays(&bench).await;
    nothing_leaked(&bench);
}

/// The functions log all there is, and none of it is a document's text, a prompt, a password or a key.
fn nothing_leaked(bench: &Deployed) {
    let logs = bench.logs();
    assert!(logs.contains("page read") && logs.contains("model call failed"), "nothing is logged");
    for words in [
        "from a shell",
        "in the body",
        "by a link",
        "tell me",
        "document 7",
        "second page",
        "at the desk",
        "page 33",
    ] {
        assert!(!logs.contains(words), "a document's words: {words}");
    }
    for secret in [
        PROVIDER_KEY,
        PAYMENT_KEY,
        "card-of-ann",
        LOCKED_WITH,
        "not-the-one",
        "You transcribe",
        "whsec_",
        "ep_",
    ] {
        assert!(!logs.contains(secret), "a prompt, password or key: {secret}");
    }
}

/// `everypage submit`, and what it can tell afterwards; a stack's parts are found by its name.
async fn the_command_line_submits(bench: &Deployed) {
    tenant(&bench.app(), "shell", &[]).await;
    let shell = Shell::of(bench, "shell");
    let file = shell.document(&["from a shell"]);
    let text = shell.say(&["submit", file.path().to_str().unwrap()]).await;
    assert!(text.contains("from a shell\n\n[read by shell-one]"), "{text}");
    let listed = shell.say(&["jobs", "list"]).await;
    assert!(listed.contains("success"), "{listed}");
    assert!(shell.say(&["breakers"]).await.contains("failover-one"));
    assert!(shell.say(&["config", "check"]).await.contains(NAME));

    let job = jobs::list(&bench.app(), &TenantId::new("shell"), 10).await.unwrap().remove(0).id;
    let settled = shell.json(&["events", "list", "--type", "page.settled"]).await;
    assert_eq!(settled.as_array().unwrap().len(), 1, "{settled}");
    let verified = shell.json(&["events", "verify", job.as_str()]).await;
    assert_eq!(verified["findings"], json!([]), "{verified}");

    // Nobody waits for an answer to an upload: what is refused is told among the dead letters.
    let put = bench.clients.s3.put_object().bucket(bench.output("BucketName")).key("incoming/shell/open.pdf");
    let put =
        put.body(sample_pdf::pages_with_text(&["from a shell"]).into()).metadata("password", LOCKED_WITH);
    put.send().await.unwrap();
    until("the refusal", Duration::from_secs(60), async || {
        let letters = shell.say(&["dlq", "list"]).await;
        letters.contains("a password in an object's metadata").then_some(())
    })
    .await;
}

/// By SNS, of a document that failed and of pages that were given up; a subscription can tell whose.
async fn people_are_told(inbox: &Inbox) {
    for (tenant, kind) in [("locked", "password"), ("poison", "deliver"), ("native", "deliver")] {
        let of_tenant = |notice: &Value| notice["MessageAttributes"]["tenant"]["Value"] == tenant;
        let notice = inbox.notice(&format!("a notice to {tenant}"), of_tenant).await;
        let (subject, body) = (notice["Subject"].as_str().unwrap(), notice["Message"].as_str().unwrap());
        assert!(subject.starts_with("Everypage gave up on "), "{notice}");
        assert!(body.contains(kind) && body.contains("everypage dlq redrive "), "{notice}");
    }
}

/// `TellOperators`, `Notify`, `NotRecorded`: of a job that is not there neither the work nor the failure
/// can be noted.
async fn a_failure_that_can_not_be_recorded_is_told(bench: &Deployed, inbox: &Inbox) {
    let call = bench.clients.sfn.start_execution().state_machine_arn(bench.output("StateMachineArn"));
    let started =
        call.name("nobodys").input(json!({ "job_id": "nobodys" }).to_string()).send().await.unwrap();
    let execution = started.execution_arn;
    let ended = until("the end of an execution", Duration::from_secs(90), async || {
        let call = bench.clients.sfn.describe_execution().execution_arn(&execution);
        let now = call.send().await.unwrap();
        (now.status.as_str() != "RUNNING").then_some(now)
    })
    .await;
    assert_eq!((ended.status.as_str(), ended.error.as_deref()), ("FAILED", Some("NotRecorded")));
    let url = bench.output("JobsDeadLettersUrl");
    let kept = received(&bench.clients, &url).await.remove(0);
    assert_eq!((&kept["job_id"], &kept["execution"]), (&json!("nobodys"), &json!(execution)), "{kept}");
    for error in ["error", "unrecorded"] {
        assert_eq!(kept[error]["Error"], "StepBroken", "{kept}");
    }
    let told = |notice: &Value| notice["Subject"] == "Everypage: a job's failure could not be recorded";
    let notice = inbox.notice("a notice of the execution", told).await;
    let body = notice["Message"].as_str().unwrap();
    assert!(body.contains("Job nobodys failed") && body.contains(&execution), "{body}");
}

/// More pages than an inline map could have at once, none of which is answered: the deadline ends them.
async fn many_pages_wait_at_once(bench: &Deployed) {
    const PAGES: usize = 60;
    // A lane that nobody else uses here.
    tenant(&bench.app(), "hang-wide", &[("JOB_TIMEOUT", "20s"), ("PRIORITY", "low")]).await;
    let words: Vec<String> = (1..=PAGES).map(|page| format!("page {page}")).collect();
    let bytes = sample_pdf::pages_with_text(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let document =
        Document { tenant: "hang-wide", name: "wide.pdf", bytes, password: None, traceparent: None };
    let id = bench.submit(document).await;
    let most = AtomicUsize::new(0);
    let job = until("the end of a wide document", Duration::from_secs(150), async || {
        let url = bench.output("LowQueueUrl");
        let call = bench.clients.sqs.get_queue_attributes().queue_url(url);
        let counts = call.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap();
        let count = |name: QueueAttributeName| counts[&name].parse::<usize>().unwrap();
        let now = count(QueueAttributeName::ApproximateNumberOfMessages)
            + count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
        most.fetch_max(now, Ordering::Relaxed);
        let job = jobs::find(&bench.app(), &id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await;
    let most = most.into_inner();
    assert!(most > 40, "at most {most} pages were under way at once");
    let metadata = &job.result.as_ref().unwrap().metadata;
    assert_eq!(
        (job.state, metadata.total_pages as usize, metadata.timeout_occurred),
        (State::Audited, PAGES, true)
    );
    assert_eq!((metadata.final_ai_pages, metadata.missing_pages.len()), (0, 0));
}

/// Two documents under one name at the same moment: each is read as it was put there.
async fn a_document_put_over_another_is_read_too(bench: &Deployed) {
    tenant(&bench.app(), "over", &[]).await;
    let document = |words: &str| {
        let bytes = sample_pdf::pages_with_text(&[words]);
        Document { tenant: "over", name: "report.pdf", bytes, password: None, traceparent: None }
    };
    let (first, second) =
        futures::join!(bench.submit(document("one of a name")), bench.submit(document("another of it")));
    assert_ne!(first, second);
    for id in [first, second] {
        assert_eq!(ended(bench, &id, Duration::from_secs(150)).await.state, State::Audited);
    }
}

/// Passwords came in files beside their documents, of which no version is left.
async fn no_password_stays(bench: &Deployed) {
    let call = bench.clients.s3.list_object_versions().bucket(bench.output("BucketName"));
    let listed = call.prefix("incoming/locked/").send().await.unwrap();
    let keys: Vec<&str> = listed.versions().iter().filter_map(|version| version.key()).collect();
    assert_eq!(keys, ["incoming/locked/locked.pdf"]);
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
    let (status, job) = ask(posted.body(sample_pdf::pages_with_text(&["in the body"])), key.expose()).await;
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
    let mut put =
        http.put(upload["upload"]["url"].as_str().unwrap()).body(sample_pdf::pages_with_text(&["by a link"]));
    for (name, value) in upload["upload"]["headers"].as_object().unwrap() {
        put = put.header(name, value.as_str().unwrap());
    }
    assert!(put.send().await.unwrap().status().is_success());
    let (_, text) = done(upload["id"].as_str().unwrap()).await;
    assert!(text.as_str().unwrap().contains("by a link\n\n[read by web-one]"), "{text}");
}

/// Pages, events, cancel, and dead letters back to work, over HTTP.
async fn the_api_mends_and_stops(bench: &Deployed) {
    tenant(&bench.app(), "clerk", &[("OPENAI_FAST_MODEL", "hang-clerk")]).await;
    let caller = Caller { tenant: TenantId::new("clerk"), user: "ann".into(), role: Role::Operator };
    let (_, key) = keys::create(&bench.app(), caller, "test").await.unwrap();
    let (http, api) = (http(), bench.output("ApiUrl"));
    let ask = async |call: reqwest::RequestBuilder| -> (u16, Value) {
        let answer = call.header("authorization", format!("Bearer {}", key.expose())).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    };
    let submit = async |query: &str, bytes: Vec<u8>| -> String {
        let call = http.post(format!("{api}/v1/jobs{query}")).header("content-type", "application/pdf");
        let (status, job) = ask(call.body(bytes)).await;
        assert_eq!(status, 202, "{job}");
        job["id"].as_str().unwrap().to_owned()
    };
    let becomes = async |id: &str, wanted: &str| {
        until(&format!("{wanted} of {id}"), Duration::from_secs(120), async || {
            let (_, job) = ask(http.get(format!("{api}/v1/jobs/{id}"))).await;
            (job["status"] == wanted).then_some(())
        })
        .await;
    };
    let stopped = submit("?tier=fast", sample_pdf::pages_with_text(&["never mind"])).await;
    until("a call that hangs", Duration::from_secs(120), async || {
        (bench.provider().calls_to("hang-clerk") > 0).then_some(())
    })
    .await;
    let (status, job) = ask(http.post(format!("{api}/v1/jobs/{stopped}/cancel"))).await;
    assert!(matches!(status, 200 | 202), "{status} {job}");
    becomes(&stopped, "cancelled").await;

    let locked = std::fs::read(everypage_engines::root().join("samples/encrypted.pdf")).unwrap();
    let locked = submit("", locked).await;
    becomes(&locked, "failed").await;
    let letter = until("a dead letter", Duration::from_secs(60), async || {
        let (status, letters) = ask(http.get(format!("{api}/v1/dlq"))).await;
        assert_eq!(status, 200, "{letters}");
        letters["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let order = json!({ "ids": [letter], "password": LOCKED_WITH }).to_string();
    let call = http.post(format!("{api}/v1/dlq/redrive")).header("content-type", "application/json");
    let (status, redriven) = ask(call.body(order)).await;
    assert_eq!((status, &redriven["failed"]), (200, &json!([])), "{redriven}");
    becomes(&locked, "success").await;
    let (status, pages) = ask(http.get(format!("{api}/v1/jobs/{locked}/pages"))).await;
    assert_eq!(status, 200, "{pages}");
    let pages = pages["items"].as_array().unwrap();
    assert!(!pages.is_empty() && pages.iter().all(|page| page["source"].is_string()), "{pages:?}");
    let (status, events) = ask(http.get(format!("{api}/v1/jobs/{locked}/events?limit=100"))).await;
    let types: Vec<&str> =
        events["items"].as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(status, 200);
    assert!(types.contains(&"job.failed") && types.contains(&"job.audited"), "{types:?}");
}

/// Credits, over HTTP: one answer for the whole purchase.
async fn the_api_sells_credits(bench: &Deployed) {
    let caller = Caller { tenant: TenantId::new("till"), user: "ann".into(), role: Role::Operator };
    let (_, key) = keys::create(&bench.app(), caller, "test").await.unwrap();
    let (http, api) = (http(), bench.output("ApiUrl"));
    let ask = async |call: reqwest::RequestBuilder| -> (u16, Value) {
        let answer = call.header("authorization", format!("Bearer {}", key.expose())).send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    };
    let order = json!({ "credits": 20, "method": "card-of-ann" }).to_string();
    let buy =
        || http.post(format!("{api}/v1/account/credits")).header("idempotency-key", "7").body(order.clone());
    let (status, bought) = ask(buy()).await;
    assert_eq!((status, &bought["state"]), (201, &json!("COMPLETED")), "{bought}");
    assert_eq!(ask(buy()).await.0, 200, "once per key");
    let (_, account) = ask(http.get(format!("{api}/v1/account"))).await;
    assert_eq!((&account["balance"], &account["price_usd"]), (&json!(20), &json!(0.05)), "{account}");
    let kept = bench.payment_server().payments.charges();
    let kept: Vec<_> = kept.iter().filter(|charge| charge.tenant.as_str() == "till").collect();
    assert_eq!((kept.len(), kept[0].amount.0), (1, 1_000_000));
    let method = kept[0].method.as_ref().map(|method| method.expose());
    assert_eq!(method, Some("card-of-ann"), "sealed on the way, and opened for the service");
    let asked = format!("Bearer {PAYMENT_KEY}");
    assert!(
        bench.payment_server().headers().iter().any(|headers| headers["authorization"] == asked.as_str())
    );
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
    let bytes = sample_pdf::pages_with_text(&["tell me"]);
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
        let bytes = sample_pdf::pages_with_text(&[&format!("document {number}"), "second page"]);
        let id = bench
            .submit(Document { tenant: "crowd", name: &name, bytes, password: None, traceparent: None })
            .await;
        ended(bench, &id, Duration::from_secs(300)).await
    }));
    for job in jobs.await {
        assert_eq!(job.state, State::Audited);
        let metadata = &job.result.as_ref().unwrap().metadata;
        assert_eq!((metadata.total_pages, metadata.timeout_occurred), (2, false));
        // A message is visible again after 8 s here, so that a machine busy with other things may lose it
        // three times and give its page up. That page has MuPDF's text then, and can be healed.
        if metadata.final_ai_pages < 2 {
            heal::send(&bench.app(), &job.id, Duration::from_secs(240)).await.unwrap();
            until(&format!("AI's text of both pages of {}", job.id), Duration::from_secs(240), async || {
                let job = jobs::find(&bench.app(), &job.id).await.ok()??.value;
                (job.result?.metadata.final_ai_pages == 2).then_some(())
            })
            .await;
        }
    }
}
