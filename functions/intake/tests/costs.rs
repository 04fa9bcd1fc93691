//! What a document costs on AWS, counted: the steps of `statemachine.asl.json` with the real handlers, over ports in
//! memory that count units and requests. `benches/aws/counts.json` has the counts; `scripts/aws-capacity` turns them
//! into cost and quotas.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Router, routing::post};
use everypage_core::{
    app::{App, Ports},
    ids::TenantId,
    intake::submit::{Submission, submit},
    job::{JobOptions, RequestSource},
    notify::relay,
    ports::{blobs::Blobs, bus::Bus, queue::Queue, records::Records, traces::NoTraces},
    read::dispatch::dispatch,
};
use everypage_local::{Driver, LocalFlow};
use everypage_testkit::{
    memory::PlainVault,
    metered::{Meter, Metered, Used},
    pdf::FakeDocument,
};
use everypage_tests::harness::{Harness, Process, temp_file};
use serde_json::{Value, json};

const MACHINE: &str = include_str!("../../../statemachine.asl.json");
const COUNTS: &str = include_str!("../../../benches/aws/counts.json");
const SIZES: [u32; 3] = [1, 20, 100];
/// Messages of one invocation of the worker.
const BATCH: usize = 10;

fn metered(harness: &Harness, meter: &Arc<Meter>) -> Process {
    let (records, blobs): (Arc<dyn Records>, Arc<dyn Blobs>) =
        (harness.records.clone(), harness.blobs.clone());
    let (queue, bus): (Arc<dyn Queue>, Arc<dyn Bus>) = (harness.queue.clone(), harness.bus.clone());
    let flow = Arc::new(LocalFlow::default());
    let ports = Ports {
        records: Arc::new(Metered::new(records, meter.clone())),
        blobs: Arc::new(Metered::new(blobs, meter.clone())),
        queue: Arc::new(Metered::new(queue, meter.clone())),
        flow: flow.clone(),
        bus: Arc::new(Metered::new(bus, meter.clone())),
        notifiers: vec![],
        vault: Arc::new(PlainVault::default()),
        hooks: harness.hooks.clone(),
        payments: harness.payments.clone(),
        pdf: harness.pdf.clone(),
        ocr: harness.ocr.clone(),
        vision: harness.vision.clone(),
        clock: harness.clock.clone(),
        ids: harness.ids.clone(),
        traces: Arc::new(NoTraces),
    };
    let app = Arc::new(App::new(ports, harness.settings.clone(), "node"));
    Process { driver: Arc::new(Driver::new(app.clone(), flow, 2)), leaves_after: None, app }
}

/// Step Functions, which accepts every call.
async fn step_functions() -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(post(async || "{}"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

/// What one document uses, by where; and its transitions and invocations.
struct Counted {
    parts: Vec<(&'static str, Used)>,
    transitions: u64,
    invocations: u64,
}

/// A document in which every page has graphics and 3 KB of text, answered at the first call.
fn document(pages: u32) -> FakeDocument {
    let mut document = FakeDocument::graphics(pages);
    for (number, page) in document.pages.iter_mut().enumerate() {
        page.text = format!("Page {number} of the report. ").repeat(120);
    }
    document
}

async fn count(pages: u32) -> Counted {
    let (harness, meter) = (Harness::new(&[]), Arc::<Meter>::default());
    let process = metered(&harness, &meter);
    let app = process.app.clone();
    let stack = support::stack_on(&process, &step_functions().await, app.store.records.clone()).await;
    let mut parts = Vec::new();
    let file = temp_file(document(pages).bytes());
    let submission = Submission {
        tenant: TenantId::new("acme"),
        user: None,
        source: RequestSource::Cli,
        name: "report.pdf".into(),
        file: file.path().to_owned(),
        password: None,
        options: JobOptions::from_settings(&app.settings),
        idempotency_key: None,
        traceparent: None,
    };
    let id = submit(&app.intake, submission).await.unwrap().job.id;
    // After each invocation, as everypage_function does.
    let publish = async || relay::relay_own(&app.publisher).await.unwrap();
    publish().await;
    parts.push(("accept", meter.take()));
    let run = async |step: Value| {
        let answer = support::run_step(&stack, &id, step).await;
        publish().await;
        answer
    };
    let begin = json!({ "step": "begin", "state": "ACKED", "token": "t1" });
    run(begin).await;
    let (mut ranges, mut groups) = (1, 1);
    let is_small = harness.queue.depths().await.unwrap().iter().any(|(_, depth)| *depth > 0);
    if !is_small {
        let prepared = run(json!({ "step": "prepare" })).await;
        run(json!({ "step": "listen", "state": "ACKED", "token": "t2" })).await;
        let all = prepared["ranges"].as_array().unwrap();
        ranges = all.len();
        for step in ["read_text", "render"] {
            for range in all {
                run(json!({ "step": step, "range": range })).await;
            }
        }
        let planned = run(json!({ "step": "plan" })).await;
        let all = planned["groups"].as_array().unwrap();
        groups = all.len();
        for group in all {
            run(json!({ "step": "send", "group": group })).await;
        }
    }
    parts.push(("prepare", meter.take()));
    let mut batches = 0;
    tokio::time::pause();
    loop {
        let deliveries = app.queue.receive(BATCH, Duration::from_secs(60)).await.unwrap();
        if deliveries.is_empty() {
            break;
        }
        batches += 1;
        // As the worker does with a batch.
        let each = deliveries.iter().map(async |delivery| {
            app.queue.extend(&delivery.receipt, app.settings.page_visibility).await.unwrap();
            dispatch(&app.reader, delivery).await;
            app.queue.delete(&delivery.receipt).await.unwrap();
        });
        futures::future::join_all(each).await;
        publish().await;
    }
    tokio::time::resume();
    parts.push(("read", meter.take()));
    let event = json!({ "step": "finalize", "job_id": id, "cause": "PagesSettled" });
    let ended = everypage_finalize::handle(&app, event).await.unwrap();
    publish().await;
    assert_eq!(ended.state, "AUDITED");
    let result = process.result(&process.job(&id).await).await;
    assert_eq!(result.metadata.final_ai_pages, pages, "every page was read");
    parts.push(("finalize", meter.take()));
    let path = Path { is_small, ranges, groups };
    let (transitions, steps) = path.walk();
    Counted { parts, transitions, invocations: steps + batches }
}

/// Which way an execution takes through the state machine.
struct Path {
    is_small: bool,
    ranges: usize,
    groups: usize,
}

enum End {
    Ended,
    Waits,
    Failed(String),
}

impl Path {
    /// State transitions and invocations of functions, of the whole execution.
    fn walk(&self) -> (u64, u64) {
        // Numbers that CloudFormation fills in.
        let mut machine = String::new();
        let mut parts = MACHINE.split(": ${");
        machine.push_str(parts.next().unwrap());
        for part in parts {
            machine.push_str(&format!(": 1{}", part.split_once('}').unwrap().1));
        }
        let machine: Value = serde_json::from_str(&machine).unwrap();
        let mut counted = (0, 0);
        assert!(matches!(self.follow(&machine, &mut counted), End::Ended));
        counted
    }

    fn follow(&self, flow: &Value, counted: &mut (u64, u64)) -> End {
        let mut name = flow["StartAt"].as_str().unwrap().to_owned();
        let mut chosen = "";
        loop {
            let state = &flow["States"][&name];
            counted.0 += 1;
            let mut error = None;
            match state["Type"].as_str().unwrap() {
                "Task" => {
                    counted.1 += 1;
                    match state["Parameters"]["Payload"]["step"].as_str().unwrap() {
                        "begin" if !self.is_small => error = Some("ManyRanges".to_owned()),
                        "prepare" => chosen = "read_texts",
                        "plan" => chosen = "send_pages",
                        _ => {}
                    }
                }
                "Map" => {
                    let times =
                        if state["ItemsPath"] == "$.prepared.ranges" { self.ranges } else { self.groups };
                    for _ in 0..times {
                        self.follow(&state["ItemProcessor"], counted);
                    }
                }
                "Parallel" => {
                    for branch in state["Branches"].as_array().unwrap() {
                        if let End::Failed(raised) = self.follow(branch, counted) {
                            error = Some(raised);
                        }
                    }
                }
                "Choice" => {
                    let choices = state["Choices"].as_array().unwrap();
                    let choice = choices.iter().find(|choice| choice["StringEquals"] == chosen).unwrap();
                    name = choice["Next"].as_str().unwrap().to_owned();
                    continue;
                }
                "Wait" => return End::Waits,
                "Fail" => return End::Failed(state["Error"].as_str().unwrap().to_owned()),
                _ => {}
            }
            let next = match error {
                None => &state["Next"],
                Some(error) => {
                    let catches = state["Catch"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let handles = |catch: &&Value| {
                        let errors = catch["ErrorEquals"].as_array().unwrap();
                        errors.iter().any(|one| *one == error || one == "States.ALL")
                    };
                    match catches.iter().find(handles) {
                        Some(catch) => &catch["Next"],
                        None => return End::Failed(error),
                    }
                }
            };
            match next.as_str() {
                Some(next) => name = next.to_owned(),
                None => return End::Ended,
            }
        }
    }
}

fn total(counted: &Counted, what: impl Fn(&Used) -> u64) -> u64 {
    counted.parts.iter().map(|(_, used)| what(used)).sum()
}

fn report(counted: &Counted) -> Value {
    let mut partitions: BTreeMap<&str, u64> = BTreeMap::new();
    for (partition, units) in counted.parts.iter().flat_map(|(_, used)| &used.partitions) {
        // A job's, page's or process's own partitions by their kind.
        let kind = partition.split_once('#').map_or(partition.as_str(), |(kind, _)| kind);
        *partitions.entry(kind).or_default() += units;
    }
    json!({
        "transition": counted.transitions,
        "invocation": counted.invocations,
        "write unit": total(counted, |used| used.write_units),
        "read unit": total(counted, |used| used.read_units),
        "put": total(counted, |used| used.puts),
        "get": total(counted, |used| used.gets),
        "message": total(counted, |used| used.messages),
        "event": total(counted, |used| used.events),
        "write units by partition": partitions,
    })
}

#[tokio::test]
async fn a_document_uses_what_the_capacity_script_counts_with() {
    let mut counts = serde_json::Map::new();
    for pages in SIZES {
        let counted = count(pages).await;
        for (part, used) in &counted.parts {
            println!("{pages:3} {part:8} {used:?}");
        }
        counts.insert(pages.to_string(), report(&counted));
    }
    let counts = Value::Object(counts);
    let stored: Value = serde_json::from_str(COUNTS).unwrap();
    let text = serde_json::to_string_pretty(&counts).unwrap();
    assert!(counts == stored, "benches/aws/counts.json should be:\n{text}");
}
