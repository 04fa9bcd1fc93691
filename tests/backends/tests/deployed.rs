//! The scenarios on the deployed stack, and tests of what only this backend has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use aws_sdk_s3::types::CreateBucketConfiguration;
use aws_sdk_sqs::types::QueueAttributeName;
use axum::{Router, http::HeaderMap, routing::post};
use everypage_backends::{
    cli::{self, Cli},
    deployed_stack::{DeployedStack, NAME, PAYMENT_KEY, PROVIDER_KEY, REGION, http},
    inbox::{Inbox, received},
    program,
    scenarios::{self, SAMPLE_PASSWORD},
    test_backend::{Document, TestBackend, ended, tenant, until},
};
use everypage_core::{
    document::{ImageFormat, ImageStyle},
    event::Aggregate,
    events::trail,
    finish::{heal, results, verify::verify_job},
    ids::{PageNumber, TenantId},
    job::{Job, State, jobs},
    keys::{blob, record},
    notify::{webhook, webhooks},
    ports::pdf::{PdfSource, ReadOptions, RenderPages},
    source::Source,
    tenants::{
        api_keys,
        caller::{Caller, Role},
    },
    time::after,
};
use everypage_testkit::sample_pdf;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_on_the_deployed_stack() {
    let backend = DeployedStack::start().await;
    let inbox = Inbox::of_topic(&backend.clients, &backend.output("TopicArn")).await;
    scenarios::common(&backend).await;
    scenarios::a_poison_page(&backend, "poison", async |job| {
        scenarios::redrive_dead_letter(&backend, job).await
    })
    .await;
    scenarios::a_poison_page(&backend, "native", async |_| redrive_by_the_sqs_console(&backend).await).await;
    notices_are_sent(&inbox).await;
    many_pages_wait_concurrently(&backend).await;
    futures::join!(
        an_unrecordable_failure_sends_a_notice(&backend, &inbox),
        cli::every_command_works(&backend),
        the_api_accepts_documents(&backend),
        the_api_redrives_and_cancels(&backend),
        the_api_sells_credits(&backend),
        the_command_line_submits(&backend),
        a_webhook_is_sent(&backend),
        a_replaced_upload_is_also_read(&backend),
        a_workflow_of_ones_own_starts(&backend),
        a_late_document_is_published(&backend),
        a_scan_that_no_model_reads_has_text(&backend),
    );
    twenty_documents_are_read_concurrently(&backend).await;
    no_password_is_left(&backend).await;
    logs_contain_no_secrets(&backend);
    // Last: it removes what the others left.
    if std::env::var_os(UNSEEN).is_some() {
        functions_are_killed_at_any_step(&backend).await;
        documents_in_s3_are_submitted(&backend).await;
        content_is_removed_after_its_time(&backend).await;
    }
}

/// Set it to run also the scenarios that have not been seen to pass in the emulator.
const UNSEEN: &str = "EVERYPAGE_TEST_UNSEEN_SCENARIOS";

/// `examples/own-workflow`: a state machine that an event of the stack's bus starts.
async fn a_workflow_of_ones_own_starts(backend: &DeployedStack) {
    let parameters = [format!("EventBusName={}", backend.output("EventBusName"))];
    let outputs = backend.deploy("own-workflow", "examples/own-workflow/template.yaml", &parameters);
    let machine = outputs["WorkflowArn"].as_str().unwrap();
    tenant(&backend.app(), "own", &[]).await;
    let bytes = sample_pdf::pages_with_text(&["with a workflow"]);
    let document = Document { tenant: "own", name: "a.pdf", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    assert_eq!(ended(backend, &id, Duration::from_secs(150)).await.state, State::Audited);
    until("an execution of the workflow", Duration::from_secs(60), async || {
        let call = backend.clients.sfn.list_executions().state_machine_arn(machine);
        for execution in call.send().await.unwrap().executions {
            let call = backend.clients.sfn.describe_execution().execution_arn(execution.execution_arn);
            let execution = call.send().await.unwrap();
            let input: Value = serde_json::from_str(execution.input.as_deref().unwrap()).unwrap();
            // The other scenarios start it too.
            if input["resources"][0].as_str().is_some_and(|resource| resource.contains(id.as_str())) {
                assert_eq!(input["detail-type"], "job.executed", "{input}");
                return (execution.status.as_str() == "SUCCEEDED").then_some(());
            }
        }
        None
    })
    .await;
}

/// Its deadline has passed before it can be opened: it is read all the same, and does not fail.
async fn a_late_document_is_published(backend: &DeployedStack) {
    tenant(&backend.app(), "late", &[("JOB_TIMEOUT", "1ms")]).await;
    let bytes = sample_pdf::pages_with_text(&["too late", "for a model"]);
    let document = Document { tenant: "late", name: "a.pdf", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    let job = ended(backend, &id, Duration::from_secs(150)).await;
    assert_eq!((job.state, &job.failure), (State::Audited, &None));
    let metadata = &job.result.as_ref().unwrap().metadata;
    assert_eq!(
        (metadata.total_pages, metadata.final_timeout_fallback_pages, metadata.timeout_occurred),
        (2, 2, true),
        "{metadata:?}"
    );
}

/// A picture of a page, at a tenant whose models all fail: OCR reads it before the result is published.
async fn a_scan_that_no_model_reads_has_text(backend: &DeployedStack) {
    // As everywhere in the tests, `./test` builds the program and then requires it.
    let is_built = program("everypage-worker").with_file_name("everypage-ocr").exists();
    assert!(is_built || std::env::var_os("EVERYPAGE_TEST_OCR").is_none(), "everypage-ocr is not built");
    if !is_built || std::env::var_os(UNSEEN).is_none() {
        return;
    }
    tenant(&backend.app(), "down-scan", &[("PATIENCE", "0"), ("JOB_TIMEOUT", "3m")]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "The harbour closes at nine in the evening";
    std::fs::write(file.path(), sample_pdf::pages_with_text(&[text])).unwrap();
    let (scanned, first) = (TenantId::new("down-scan"), PageNumber::new(1).unwrap());
    let source = PdfSource { file: file.path(), password: None, tenant: &scanned };
    let style = ImageStyle { dpi: 200, format: ImageFormat::Png, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::All, style };
    let read = backend.app().preparer.pdf.read(source, &[first], &options).await.unwrap();
    let bytes = read[0].image.as_ref().unwrap().bytes.clone();
    let document =
        Document { tenant: "down-scan", name: "scan.png", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    let job = ended(backend, &id, Duration::from_secs(200)).await;
    assert_eq!(job.state, State::Audited);
    let blobs = backend.app().blobs.clone();
    let document = results::read_document(blobs.as_ref(), &job, None).await.unwrap().unwrap();
    let page = &document.pages[0];
    assert_eq!(page.source, Source::OCR_FALLBACK, "{page:?}");
    assert!(page.text.contains("harbour closes at nine"), "{}", page.text);
    assert!(!document.metadata.timeout_occurred);
}

/// `DataRetentionDays`, here with a shorter time: the sweep removes uploads, blobs and the pages' records, and
/// the job and its trail stay.
async fn content_is_removed_after_its_time(backend: &DeployedStack) {
    let tenant = TenantId::new("over");
    let app = backend.app();
    let job = jobs::list(&app.store, &tenant, 10).await.unwrap().remove(0);
    let partition = record::job_partition(&job.id);
    let stored = async || {
        let bucket = backend.output("BucketName");
        let mut objects = Vec::new();
        for prefix in [blob::job(&job.id), "incoming/over/".to_owned()] {
            let call = backend.clients.s3.list_objects_v2().bucket(&bucket).prefix(prefix);
            let listed = call.send().await.unwrap();
            objects.extend(listed.contents().iter().filter_map(|object| object.key().map(str::to_owned)));
        }
        let pages = app.store.records.list(&partition, record::PAGES, None, 10).await.unwrap().items;
        (objects, pages.len())
    };
    let (objects, pages) = stored().await;
    assert!(objects.iter().any(|key| key.starts_with("incoming/")) && pages > 0, "{objects:?} {pages}");
    backend.sweep().await;
    assert_eq!(stored().await, (objects, pages), "its time is not over");
    backend.change_variable("finalize", "DATA_RETENTION", "1s").await;
    until("the removal of content", Duration::from_secs(90), async || {
        backend.sweep().await;
        let (objects, pages) = stored().await;
        (objects.is_empty() && pages == 0).then_some(())
    })
    .await;
    let kept = jobs::find(&app.store, &job.id).await.unwrap().unwrap().value;
    assert!(kept.content_removed_at.is_some() && kept.result.is_some(), "{kept:?}");
    let trail = trail::read(&app.store, &Aggregate::Job(job.id.clone())).await.unwrap();
    assert_eq!(trail.last().unwrap().kind, "job.content_removed");
}

/// The functions log at the most detailed level, and no line has a document's text, a prompt, a password or
/// a key.
fn logs_contain_no_secrets(backend: &DeployedStack) {
    let logs = backend.logs();
    assert!(logs.contains("page read") && logs.contains("model call failed"), "the logs are empty");
    for text in [
        "from a shell",
        "in the body",
        "by a link",
        "by webhook",
        "document 7",
        "second page",
        "at the desk",
        "page 33",
    ] {
        assert!(!logs.contains(text), "text of a document: {text}");
    }
    for secret in [
        PROVIDER_KEY,
        PAYMENT_KEY,
        "card-of-ann",
        SAMPLE_PASSWORD,
        "not-the-one",
        "You transcribe",
        "whsec_",
        "ep_",
    ] {
        assert!(!logs.contains(secret), "a prompt, password or key: {secret}");
    }
}

/// `everypage submit` and the commands that list its job; the stack's parts are found by its name.
async fn the_command_line_submits(backend: &DeployedStack) {
    tenant(&backend.app(), "shell", &[]).await;
    let cli = Cli::new(backend, "shell");
    let file = cli.document(&["from a shell"]);
    let text = cli.succeed(&["submit", file.path().to_str().unwrap()]).await;
    assert!(text.contains("from a shell\n\n[read by shell-one]"), "{text}");
    let listed = cli.succeed(&["jobs", "list"]).await;
    assert!(listed.contains("success"), "{listed}");
    assert!(cli.succeed(&["breakers"]).await.contains("failover-one"));
    assert!(cli.succeed(&["config", "check"]).await.contains(NAME));

    let job = jobs::list(&backend.app().store, &TenantId::new("shell"), 10).await.unwrap().remove(0).id;
    let settled = cli.json(&["events", "list", "--type", "page.settled"]).await;
    assert_eq!(settled.as_array().unwrap().len(), 1, "{settled}");
    let verified = cli.json(&["events", "verify", job.as_str()]).await;
    assert_eq!(verified["findings"], json!([]), "{verified}");

    // An upload has no reply: a refused one becomes a dead letter.
    let put =
        backend.clients.s3.put_object().bucket(backend.output("BucketName")).key("incoming/shell/open.pdf");
    let put =
        put.body(sample_pdf::pages_with_text(&["from a shell"]).into()).metadata("password", SAMPLE_PASSWORD);
    put.send().await.unwrap();
    until("the refusal", Duration::from_secs(60), async || {
        let dead_letters = cli.succeed(&["dlq", "list"]).await;
        dead_letters.contains("metadata contains a password").then_some(())
    })
    .await;
}

/// `everypage submit s3://…`: S3 copies documents of another bucket, one or all below a prefix.
async fn documents_in_s3_are_submitted(backend: &DeployedStack) {
    let archive = "everypage-e2e-archive";
    let here = CreateBucketConfiguration::builder().location_constraint(REGION.into()).build();
    let s3 = &backend.clients.s3;
    s3.create_bucket().bucket(archive).create_bucket_configuration(here).send().await.unwrap();
    for (key, text) in [("2026/a.pdf", "from January"), ("2026/b.pdf", "from May"), ("2025/c.pdf", "too old")]
    {
        let body = sample_pdf::pages_with_text(&[text]).into();
        s3.put_object().bucket(archive).key(key).body(body).send().await.unwrap();
    }
    tenant(&backend.app(), "archive", &[]).await;
    let cli = Cli::new(backend, "archive");
    let one = cli.succeed(&["submit", &format!("s3://{archive}/2026/a.pdf")]).await;
    assert!(one.contains("from January"), "{one}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    cli.succeed(&["submit", &format!("s3://{archive}/2026/"), "--force", "-o", out]).await;
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("2026/a.txt").contains("from January") && read("2026/b.txt").contains("from May"));
    assert!(!folder.path().join("2025").exists(), "not below the prefix");
    let missing = cli.fail(&["submit", &format!("s3://{archive}/2026/z.pdf")]).await;
    assert!(missing.contains("there is no such object"), "{missing}");
}

/// By SNS, for a failed document and for dead-lettered pages; a subscription can filter by tenant.
async fn notices_are_sent(inbox: &Inbox) {
    for (tenant, kind) in [("locked", "password"), ("poison", "deliver"), ("native", "deliver")] {
        let of_tenant = |notice: &Value| notice["MessageAttributes"]["tenant"]["Value"] == tenant;
        let notice = inbox.notice(&format!("a notice to {tenant}"), of_tenant).await;
        let (subject, body) = (notice["Subject"].as_str().unwrap(), notice["Message"].as_str().unwrap());
        assert!(subject.starts_with("Everypage gave up on "), "{notice}");
        assert!(body.contains(kind) && body.contains("everypage dlq redrive "), "{notice}");
    }
}

/// `QueueForOperators`, `NotifyOperators`, `NotRecorded`: for a job without a record, neither its work nor its
/// failure can be stored.
async fn an_unrecordable_failure_sends_a_notice(backend: &DeployedStack, inbox: &Inbox) {
    let call = backend.clients.sfn.start_execution().state_machine_arn(backend.output("StateMachineArn"));
    let deadline = after(backend.app().store.clock.now(), Duration::from_secs(300)).to_string();
    let input = json!({ "job_id": "unknown-job", "job": { "state": "ACKED", "deadline": deadline, "ocr_at": deadline } });
    let started = call.name("unknown-job").input(input.to_string()).send().await.unwrap();
    let execution = started.execution_arn;
    let ended = until("the end of an execution", Duration::from_secs(90), async || {
        let call = backend.clients.sfn.describe_execution().execution_arn(&execution);
        let now = call.send().await.unwrap();
        (now.status.as_str() != "RUNNING").then_some(now)
    })
    .await;
    assert_eq!((ended.status.as_str(), ended.error.as_deref()), ("FAILED", Some("NotRecorded")));
    let url = backend.output("JobsDeadLettersUrl");
    let message = received(&backend.clients, &url).await.remove(0);
    assert_eq!(
        (&message["job_id"], &message["execution"]),
        (&json!("unknown-job"), &json!(execution)),
        "{message}"
    );
    for error in ["error", "unrecorded"] {
        assert_eq!(message[error]["Error"], "StepBroken", "{message}");
    }
    let wanted = |notice: &Value| notice["Subject"] == "Everypage: a job's failure could not be recorded";
    let notice = inbox.notice("a notice of the execution", wanted).await;
    let body = notice["Message"].as_str().unwrap();
    assert!(body.contains("Job unknown-job failed") && body.contains(&execution), "{body}");
}

/// More concurrent pages than an inline map allows, none of which is answered: the deadline ends them.
async fn many_pages_wait_concurrently(backend: &DeployedStack) {
    const PAGES: usize = 60;
    // A lane that no other scenario uses.
    tenant(&backend.app(), "hang-wide", &[("JOB_TIMEOUT", "20s"), ("PRIORITY", "low")]).await;
    let texts: Vec<String> = (1..=PAGES).map(|page| format!("page {page}")).collect();
    let bytes = sample_pdf::pages_with_text(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let document =
        Document { tenant: "hang-wide", name: "wide.pdf", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    let max = AtomicUsize::new(0);
    let job = until("the end of a wide document", Duration::from_secs(150), async || {
        let url = backend.output("LowQueueUrl");
        let call = backend.clients.sqs.get_queue_attributes().queue_url(url);
        let counts = call.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap();
        let count = |name: QueueAttributeName| counts[&name].parse::<usize>().unwrap();
        let now = count(QueueAttributeName::ApproximateNumberOfMessages)
            + count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
        max.fetch_max(now, Ordering::Relaxed);
        let job = jobs::find(&backend.app().store, &id).await.ok()??.value;
        job.state.is_terminal().then_some(job)
    })
    .await;
    let max = max.into_inner();
    assert!(max > 40, "at most {max} pages were in the queue at a time");
    let metadata = &job.result.as_ref().unwrap().metadata;
    assert_eq!(
        (job.state, metadata.total_pages as usize, metadata.timeout_occurred),
        (State::Audited, PAGES, true)
    );
    assert_eq!((metadata.final_ai_pages, metadata.missing_pages), (0, 0));
}

/// Two documents uploaded under one name at the same moment: each is read as it was uploaded.
async fn a_replaced_upload_is_also_read(backend: &DeployedStack) {
    tenant(&backend.app(), "over", &[]).await;
    let document = |text: &str| {
        let bytes = sample_pdf::pages_with_text(&[text]);
        Document { tenant: "over", name: "report.pdf", bytes, password: None, traceparent: None }
    };
    let (first, second) =
        futures::join!(backend.submit(document("one of a name")), backend.submit(document("another of it")));
    assert_ne!(first, second);
    for id in [first, second] {
        assert_eq!(ended(backend, &id, Duration::from_secs(150)).await.state, State::Audited);
    }
}

/// Passwords were uploaded in metadata files next to their documents; no version of these is left.
async fn no_password_is_left(backend: &DeployedStack) {
    let call = backend.clients.s3.list_object_versions().bucket(backend.output("BucketName"));
    let listed = call.prefix("incoming/locked/").send().await.unwrap();
    let keys: Vec<&str> = listed.versions().iter().filter_map(|version| version.key()).collect();
    assert_eq!(keys, ["incoming/locked/locked.pdf"]);
}

/// "Start DLQ redrive" in the SQS console.
async fn redrive_by_the_sqs_console(backend: &DeployedStack) {
    let arn = format!("arn:aws:sqs:{REGION}:000000000000:{NAME}-normal-dlq");
    backend.clients.sqs.start_message_move_task().source_arn(arn).send().await.unwrap();
}

/// Submissions over HTTP with a key: in the body, and through an upload link for large documents.
async fn the_api_accepts_documents(backend: &DeployedStack) {
    tenant(&backend.app(), "web", &[]).await;
    let caller =
        |tenant: &str| Caller { tenant: TenantId::new(tenant), user: "ann".into(), role: Role::User };
    let (_, key) = api_keys::create(&backend.app().store, caller("web"), "test", "test").await.unwrap();
    let (_, foreign) = api_keys::create(&backend.app().store, caller("other"), "test", "test").await.unwrap();
    let (http, api) = (http(), backend.output("ApiUrl"));
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
    let without_key = ask(http.get(format!("{api}/v1/jobs")), "ep_unknown").await.0;
    assert!(matches!(without_key, 401 | 403), "{without_key}");

    let body = json!({ "upload": true, "name": "large.pdf" }).to_string();
    let request = http.post(format!("{api}/v1/jobs")).header("content-type", "application/json").body(body);
    let (status, upload) = ask(request, key.expose()).await;
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

/// Pages, events, cancel and redrive, over HTTP.
async fn the_api_redrives_and_cancels(backend: &DeployedStack) {
    tenant(&backend.app(), "clerk", &[("OPENAI_FAST_MODEL", "hang-clerk")]).await;
    let caller = Caller { tenant: TenantId::new("clerk"), user: "ann".into(), role: Role::Operator };
    let (_, key) = api_keys::create(&backend.app().store, caller, "test", "test").await.unwrap();
    let (http, api) = (http(), backend.output("ApiUrl"));
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
    let wait_for = async |id: &str, wanted: &str| {
        until(&format!("{wanted} of {id}"), Duration::from_secs(120), async || {
            let (_, job) = ask(http.get(format!("{api}/v1/jobs/{id}"))).await;
            (job["status"] == wanted).then_some(())
        })
        .await;
    };
    let stopped = submit("?tier=fast", sample_pdf::pages_with_text(&["never mind"])).await;
    until("a call that hangs", Duration::from_secs(120), async || {
        (backend.provider().calls_to("hang-clerk") > 0).then_some(())
    })
    .await;
    let (status, job) = ask(http.post(format!("{api}/v1/jobs/{stopped}/cancel"))).await;
    assert!(matches!(status, 200 | 202), "{status} {job}");
    wait_for(&stopped, "cancelled").await;

    let locked = std::fs::read(everypage_backends::root().join("samples/encrypted.pdf")).unwrap();
    let locked = submit("", locked).await;
    wait_for(&locked, "failed").await;
    let dead_letter = until("a dead letter", Duration::from_secs(60), async || {
        let (status, dead_letters) = ask(http.get(format!("{api}/v1/dlq"))).await;
        assert_eq!(status, 200, "{dead_letters}");
        dead_letters["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let order = json!({ "ids": [dead_letter], "password": SAMPLE_PASSWORD }).to_string();
    let call = http.post(format!("{api}/v1/dlq/redrive")).header("content-type", "application/json");
    let (status, redriven) = ask(call.body(order)).await;
    assert_eq!((status, &redriven["failed"]), (200, &json!([])), "{redriven}");
    wait_for(&locked, "success").await;
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

/// A purchase of credits over HTTP: complete in one call, or on a slow machine soon after it.
async fn the_api_sells_credits(backend: &DeployedStack) {
    let caller = Caller { tenant: TenantId::new("shop"), user: "ann".into(), role: Role::Operator };
    let (_, key) = api_keys::create(&backend.app().store, caller, "test", "test").await.unwrap();
    let (http, api) = (http(), backend.output("ApiUrl"));
    let ask = async |call: reqwest::RequestBuilder| -> (u16, Value) {
        let answer = call.header("authorization", format!("Bearer {}", key.expose())).send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    };
    let order = json!({ "credits": 20, "method": "card-of-ann" }).to_string();
    let buy =
        || http.post(format!("{api}/v1/account/credits")).header("idempotency-key", "7").body(order.clone());
    let (status, bought) = ask(buy()).await;
    assert!(matches!(status, 201 | 202), "{status}: {bought}");
    let purchase = format!("{api}/v1/account/purchases/{}", bought["id"].as_str().unwrap());
    until("the purchase", Duration::from_secs(30), async || {
        let (_, bought) = ask(http.get(&purchase)).await;
        (bought["state"] == json!("COMPLETED")).then_some(())
    })
    .await;
    assert_eq!(ask(buy()).await.0, 200, "one purchase per idempotency key");
    let (_, account) = ask(http.get(format!("{api}/v1/account"))).await;
    assert_eq!((&account["balance"], &account["price_usd"]), (&json!(20), &json!(0.05)), "{account}");
    let charges = backend.payment_server().payments.charges();
    let charges: Vec<_> = charges.iter().filter(|charge| charge.tenant.as_str() == "shop").collect();
    assert_eq!((charges.len(), charges[0].amount.0), (1, 1_000_000));
    let method = charges[0].method.as_ref().map(|method| method.expose());
    assert_eq!(method, Some("card-of-ann"), "sealed in storage, and opened for the payment service");
    let expected = format!("Bearer {PAYMENT_KEY}");
    assert!(
        backend
            .payment_server()
            .headers()
            .iter()
            .any(|headers| headers["authorization"] == expected.as_str())
    );
}

/// Sent by finalize when the job ends, not by a sweep; signed, and in the job's trace.
async fn a_webhook_is_sent(backend: &DeployedStack) {
    tenant(&backend.app(), "hooked", &[]).await;
    let received: Arc<Mutex<Vec<(HeaderMap, String)>>> = Arc::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let router = Router::new().route("/hooks", {
        let received = received.clone();
        post(async move |headers: HeaderMap, body: String| received.lock().unwrap().push((headers, body)))
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let secret = webhooks::set(
        &backend.app().store,
        backend.app().vault.as_ref(),
        &TenantId::new("hooked"),
        &url,
        "test",
    )
    .await
    .unwrap();
    let bytes = sample_pdf::pages_with_text(&["by webhook"]);
    let document = Document { tenant: "hooked", name: "a.pdf", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    let job = ended(backend, &id, Duration::from_secs(150)).await;
    let leaves_within = Duration::from_secs(20);
    let (headers, body) =
        until("a webhook", leaves_within, async || received.lock().unwrap().first().cloned()).await;
    let header = |name: &str| headers[name].to_str().unwrap();
    let (message, time) = (header("webhook-id"), header("webhook-timestamp").parse().unwrap());
    assert_eq!(header("webhook-signature"), webhook::sign(&secret, message, time, &body));
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("job.success"), &json!(id)));
    assert!(header("traceparent").contains(&job.trace().trace_id()));
}

/// Intake is killed while it prepares the document, finalize while it publishes, each again and again for a moment.
#[expect(clippy::disallowed_methods, reason = "the functions run in real time")]
async fn functions_are_killed_at_any_step(backend: &DeployedStack) {
    tenant(&backend.app(), "killed", &[("JOB_TIMEOUT", "5m")]).await;
    let bytes = sample_pdf::pages_with_text(&["one", "two"]);
    let document = Document { tenant: "killed", name: "k.pdf", bytes, password: None, traceparent: None };
    let id = backend.submit(document).await;
    let kill_for = async |function: &str, time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            backend.kill(function);
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    kill_for("intake", Duration::from_secs(2)).await;
    until("both pages settled", Duration::from_secs(200), async || {
        let events = trail::read_pages(&backend.app().store, &id).await.ok()?;
        (events.iter().filter(|event| event.kind == "page.settled").count() == 2).then_some(())
    })
    .await;
    kill_for("finalize", Duration::from_secs(3)).await;
    let job = ended(backend, &id, Duration::from_secs(200)).await;
    assert_eq!(job.state, State::Audited);
    let result = job.result.as_ref().unwrap();
    assert_eq!((result.version, result.metadata.total_pages, result.metadata.final_ai_pages), (1, 2, 2));
    let report = verify_job(&backend.app().store, backend.app().blobs.as_ref(), &id).await.unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

/// Seconds from the last settled page to the published result.
async fn publishing_time(backend: &DeployedStack, job: &Job) -> f64 {
    let app = backend.app();
    let store = &app.store;
    let pages = trail::read_pages(store, &job.id).await.unwrap();
    let settled = pages.iter().map(|event| event.timestamp).max().unwrap();
    let events = trail::read(store, &Aggregate::Job(job.id.clone())).await.unwrap();
    let executed = events.iter().find(|event| event.kind == "job.executed").unwrap().timestamp;
    executed.duration_since(settled).as_secs_f64()
}

async fn twenty_documents_are_read_concurrently(backend: &DeployedStack) {
    tenant(&backend.app(), "crowd", &[("JOB_TIMEOUT", "5m")]).await;
    let jobs = join_all((1..=20).map(async |number: u32| {
        let name = format!("{number}.pdf");
        let bytes = sample_pdf::pages_with_text(&[&format!("document {number}"), "second page"]);
        let id = backend
            .submit(Document { tenant: "crowd", name: &name, bytes, password: None, traceparent: None })
            .await;
        ended(backend, &id, Duration::from_secs(300)).await
    }));
    let jobs = jobs.await;
    let mut times = join_all(jobs.iter().map(|job| publishing_time(backend, job))).await;
    times.sort_by(f64::total_cmp);
    println!(
        "seconds from the last page's answer to the result: median {:.1}, longest {:.1}",
        times[10], times[19]
    );
    for job in jobs {
        assert_eq!(job.state, State::Audited);
        let metadata = &job.result.as_ref().unwrap().metadata;
        assert_eq!((metadata.total_pages, metadata.timeout_occurred), (2, false));
        // A message is visible again after 8 s here, so that a busy machine may exceed that three times and
        // the page becomes a dead letter. It has MuPDF's text then, and can be healed.
        if metadata.final_ai_pages < 2 {
            heal::send(&backend.app().finisher, &job.id, Duration::from_secs(240)).await.unwrap();
            until(
                &format!("both pages of {} read by a model", job.id),
                Duration::from_secs(240),
                async || {
                    let job = jobs::find(&backend.app().store, &job.id).await.ok()??.value;
                    (job.result?.metadata.final_ai_pages == 2).then_some(())
                },
            )
            .await;
        }
    }
}
