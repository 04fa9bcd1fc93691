//! The metrics of typical runs: each event is counted once, whatever is repeated.

use std::{collections::BTreeMap, time::Duration};

use everypage_core::{
    billing::buy::{self, PurchaseRequest},
    dead_letters::{self, purge},
    finish::{finalize::finalize, heal, result::Cause},
    ids::{Priority, TenantId},
    job::{State, cancel::cancel},
    notify::{deliver, relay, webhooks},
    observe::measure::measure,
    ports::{
        queue::{Outgoing, Queue},
        vision::{Scope, VisionError},
    },
    recover::sweep::sweep,
    telemetry::metrics::{ALL, Kind},
};
use everypage_telemetry::prometheus::Prometheus;
use everypage_testkit::{
    faulty::{Faults, Mode},
    memory::PaymentBehaviour,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{harness::Harness, invariants};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Records the metrics of this thread until it is dropped; each test runs on its own thread.
struct MetricsRecording {
    snapshotter: Snapshotter,
    _guard: metrics::LocalRecorderGuard<'static>,
}

fn record_metrics() -> MetricsRecording {
    let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
    MetricsRecording {
        snapshotter: recorder.snapshotter(),
        _guard: metrics::set_default_local_recorder(recorder),
    }
}

impl MetricsRecording {
    /// The values recorded since the last call, as `name{label values}`; for histograms the number of
    /// observations. Every metric must be defined, with its labels in order.
    fn all(&self) -> BTreeMap<String, f64> {
        let mut recorded = BTreeMap::new();
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let name = key.name();
            let defined = ALL.iter().find(|metric| metric.name == name);
            let defined = defined.unwrap_or_else(|| panic!("{name} is not defined"));
            let labels: Vec<&str> = key.labels().map(|label| label.key()).collect();
            assert_eq!(labels, defined.labels, "{name}");
            let value = match (value, defined.kind) {
                (DebugValue::Counter(count), Kind::Counter) => count as f64,
                (DebugValue::Gauge(value), Kind::Gauge | Kind::Sum) => value.into_inner(),
                (DebugValue::Histogram(values), Kind::Histogram(_)) => values.len() as f64,
                (value, kind) => panic!("{name} is {kind:?} and was recorded as {value:?}"),
            };
            let short = name.trim_start_matches("everypage_");
            let values: Vec<&str> = key.labels().map(|label| label.value()).collect();
            recorded.insert(format!("{short}{{{}}}", values.join(",")), value);
        }
        // Counters that did not change since the last call, and limits that did not change at all.
        recorded
            .retain(|name, value| *value != 0.0 && !(name.starts_with("inflight_limit") && *value == 24.0));
        recorded
    }

    /// Without operations, which nearly every step is.
    fn recorded(&self) -> BTreeMap<String, f64> {
        let mut recorded = self.all();
        recorded.retain(|name, _| !name.starts_with("operation_processing_seconds"));
        recorded
    }

    /// Only operations, as `type,priority,status`.
    fn operations(&self) -> BTreeMap<String, f64> {
        let named = |name: &str| {
            let labels = name.strip_prefix("operation_processing_seconds{")?.strip_suffix('}')?;
            Some(labels.to_owned())
        };
        self.all().into_iter().filter_map(|(name, count)| Some((named(&name)?, count))).collect()
    }
}

/// A document whose password is not given.
fn locked() -> FakeDocument {
    FakeDocument { password: Some("open sesame".into()), ..FakeDocument::graphics(2) }
}

fn expected(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

/// Sums of floating-point costs are not exact.
fn rounded(recorded: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    recorded.into_iter().map(|(name, value)| (name, (value * 1e9).round() / 1e9)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_without_faults_counts_pages_calls_and_cost() {
    let metrics = record_metrics();
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(10)).await.unwrap().job.id;
    process.finish(&id).await;
    assert_eq!(
        rounded(metrics.recorded()),
        expected(&[
            ("job_duration_seconds{success}", 1.0),
            ("page_rounds{}", 5.0),
            ("pages_processed_total{ai}", 5.0),
            ("pages_processed_total{mupdf}", 5.0),
            ("provider_cost_usd_total{openai,gpt-5.4}", 0.005),
            ("provider_latency_seconds{openai,gpt-5.4}", 5.0),
            ("provider_requests_total{openai,gpt-5.4,answered}", 5.0),
            ("provider_tokens_total{openai,gpt-5.4,input}", 5000.0),
            ("provider_tokens_total{openai,gpt-5.4,output}", 500.0),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_failover_counts_calls_of_each_model() {
    let metrics = record_metrics();
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("BREAKER_FAILURE_THRESHOLD", "1")]);
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "gpt-5.4" => Reply::down(),
        // It answers, but with an empty text.
        "gpt-5.4-mini" => Reply::Answer(String::new()),
        _ => Reply::Answer(read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    process.finish(&id).await;
    assert_eq!(
        rounded(metrics.recorded()),
        expected(&[
            ("breaker_events_total{openai,gpt-5.4,opened}", 1.0),
            // From a model that failed or whose breaker is open, then from one with an empty answer.
            ("failover_events_total{openai,anthropic}", 3.0),
            ("failover_events_total{openai,openai}", 3.0),
            ("job_duration_seconds{success}", 1.0),
            ("page_rounds{}", 3.0),
            ("pages_processed_total{ai}", 3.0),
            ("provider_cost_usd_total{anthropic,claude-sonnet-4-6}", 0.003),
            ("provider_cost_usd_total{openai,gpt-5.4-mini}", 0.003),
            ("provider_latency_seconds{anthropic,claude-sonnet-4-6}", 3.0),
            ("provider_latency_seconds{openai,gpt-5.4-mini}", 3.0),
            ("provider_latency_seconds{openai,gpt-5.4}", 1.0),
            ("provider_requests_total{anthropic,claude-sonnet-4-6,answered}", 3.0),
            ("provider_requests_total{openai,gpt-5.4,transient}", 1.0),
            ("provider_requests_total{openai,gpt-5.4-mini,empty}", 3.0),
            ("provider_tokens_total{anthropic,claude-sonnet-4-6,input}", 3000.0),
            ("provider_tokens_total{anthropic,claude-sonnet-4-6,output}", 300.0),
            ("provider_tokens_total{openai,gpt-5.4-mini,input}", 3000.0),
            ("provider_tokens_total{openai,gpt-5.4-mini,output}", 300.0),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn reserved_settled_bought_and_refunded_credits_are_counted() {
    let metrics = record_metrics();
    let harness = Harness::new(&[
        ("CREDITS", "prepaid"),
        ("PAYMENT_URL", "http://pay.example"),
        ("CREDIT_PRICE_USD", "0.05"),
    ]);
    let process = harness.start("a");
    let buy = async |credits| {
        let (tenant, by) = (TenantId::new("local"), "ann".to_owned());
        let order = PurchaseRequest { tenant, by, credits, method: None, idempotency_key: None };
        let (started, _) = buy::start(&process.app.billing, order).await.unwrap();
        buy::drive(&process.app.billing, &started.id, Duration::from_secs(60)).await.unwrap()
    };
    buy(10).await;
    assert_eq!(metrics.recorded(), expected(&[("saga_duration_seconds{purchase,completed}", 1.0)]));
    harness.vision.set_behaviour(|target, page| match page {
        3 => Reply::down(),
        _ => Reply::Answer(read_by(target, page)),
    });
    let id = process.submit(&FakeDocument::graphics(3)).await.unwrap().job.id;
    process.finish(&id).await;
    let mut recorded = metrics.recorded();
    recorded.retain(|name, _| name.starts_with("credits") || name.starts_with("saga"));
    assert_eq!(recorded, expected(&[("credits_reserved_total{}", 3.0), ("credits_settled_total{}", 2.0)]));
    harness.payments.script_charges([
        PaymentBehaviour::LosesReply,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
        PaymentBehaviour::Unavailable,
    ]);
    harness.payments.script_refunds([PaymentBehaviour::Unavailable; 4]);
    buy(5).await;
    measure(&process.app.store, process.app.queue.as_ref(), &process.app.reader.breakers).await.unwrap();
    let mut recorded = metrics.recorded();
    recorded.retain(|name, _| name.starts_with("credits") || name.starts_with("saga"));
    assert_eq!(
        recorded,
        expected(&[
            ("saga_compensations_total{purchase,done}", 1.0),
            ("saga_compensations_total{purchase,stuck}", 1.0),
            ("saga_duration_seconds{purchase,manual}", 1.0),
            ("sagas_waiting{}", 1.0),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_outage_and_its_recovery_are_counted() {
    let metrics = record_metrics();
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("SECONDARY_ENGINE", "openai")]);
    harness.vision.set_behaviour(|_, _| {
        Reply::Fail(VisionError::Configuration { detail: "401".into(), scope: Scope::Provider })
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(4)).await.unwrap().job.id;
    process.finish(&id).await;
    let provider_down = [
        // One call, and a probe that confirms it; every other page skips the provider.
        ("breaker_events_total{openai,*,half_open}", 1.0),
        ("breaker_events_total{openai,*,opened}", 2.0),
        ("job_duration_seconds{success}", 1.0),
        ("page_rounds{}", 4.0),
        ("pages_processed_total{mupdf_fallback}", 4.0),
        ("provider_latency_seconds{openai,gpt-5.4}", 2.0),
        ("provider_requests_total{openai,gpt-5.4,configuration}", 2.0),
    ];
    assert_eq!(metrics.recorded(), expected(&provider_down));

    harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    harness.advance(Duration::from_secs(61)).await;
    heal::send(&process.app.finisher, &id, Duration::from_secs(60)).await.unwrap();
    process.work_for(Duration::from_secs(5)).await;
    assert_eq!(
        rounded(metrics.recorded()),
        expected(&[
            ("breaker_events_total{openai,*,closed}", 1.0),
            ("breaker_events_total{openai,*,half_open}", 1.0),
            ("page_rounds{}", 4.0),
            ("pages_processed_total{ai}", 4.0),
            ("provider_cost_usd_total{openai,gpt-5.4}", 0.004),
            ("provider_latency_seconds{openai,gpt-5.4}", 4.0),
            ("provider_requests_total{openai,gpt-5.4,answered}", 4.0),
            ("provider_tokens_total{openai,gpt-5.4,input}", 4000.0),
            ("provider_tokens_total{openai,gpt-5.4,output}", 400.0),
        ]),
        "healed pages are counted again, with their new source"
    );
}

/// Takes out what `calls` without a reply may have cost, which follows from their requests.
fn without_estimates(mut recorded: BTreeMap<String, f64>, model: &str, calls: f64) -> BTreeMap<String, f64> {
    let mut take = |name: String| recorded.remove(&name).unwrap_or_default();
    let tokens = take(format!("provider_tokens_total{{openai,{model},input}}"));
    let cost = take(format!("provider_cost_usd_total{{openai,{model}}}"));
    assert!((6500.0 * calls..10_000.0 * calls).contains(&tokens), "{tokens} tokens of {calls} calls");
    assert!((cost - tokens / 1e6).abs() < 1e-6, "{tokens} tokens cost {cost}");
    recorded
}

#[tokio::test(start_paused = true)]
async fn a_hanging_provider_counts_a_job_timeout_and_cut_off_calls() {
    let metrics = record_metrics();
    let pairs = [("JOB_TIMEOUT", "10s"), ("HEDGE", "off"), ("SECONDARY_ENGINE", "openai")];
    let harness = Harness::new(&[pairs[0], pairs[1], pairs[2], ("OPENAI_SECONDARY_MODEL", "gpt-5.4")]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(10)).await.unwrap().job.id;
    process.finish(&id).await;
    process.work_for(Duration::from_secs(120)).await;
    let calls = harness.vision.calls().len() as f64;
    assert_eq!(
        without_estimates(metrics.recorded(), "gpt-5.4", calls),
        expected(&[
            ("job_duration_seconds{success}", 1.0),
            ("page_rounds{}", 5.0),
            ("pages_processed_total{mupdf}", 5.0),
            ("pages_processed_total{mupdf_timeout_fallback}", 5.0),
            // The calls ended at the deadline, before their own timeout.
            ("provider_requests_total{openai,gpt-5.4,cut_off}", calls),
            ("timeout_events_total{job}", 1.0),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_time_out_are_counted() {
    let metrics = record_metrics();
    let pairs = [
        ("REQUEST_TIMEOUT", "3s"),
        ("WORKER_CONCURRENCY", "1"),
        ("SECONDARY_ENGINE", "openai"),
        ("PATIENCE", "0"),
        ("BREAKER_FAILURE_THRESHOLD", "1"),
    ];
    let harness = Harness::new(&pairs);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    process.finish(&id).await;
    let recorded = without_estimates(metrics.recorded(), "gpt-5.4", 2.0);
    assert_eq!(
        without_estimates(recorded, "gpt-5.4-mini", 2.0),
        expected(&[
            // The second page has no other model: it probes.
            ("breaker_events_total{openai,gpt-5.4,half_open}", 1.0),
            ("breaker_events_total{openai,gpt-5.4,opened}", 2.0),
            ("breaker_events_total{openai,gpt-5.4-mini,half_open}", 1.0),
            ("breaker_events_total{openai,gpt-5.4-mini,opened}", 2.0),
            ("failover_events_total{openai,openai}", 1.0),
            ("job_duration_seconds{success}", 1.0),
            ("page_rounds{}", 2.0),
            ("pages_processed_total{mupdf_fallback}", 2.0),
            ("provider_latency_seconds{openai,gpt-5.4}", 2.0),
            ("provider_latency_seconds{openai,gpt-5.4-mini}", 2.0),
            ("provider_requests_total{openai,gpt-5.4,timeout}", 2.0),
            ("provider_requests_total{openai,gpt-5.4-mini,timeout}", 2.0),
            ("timeout_events_total{request}", 4.0),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_delivered_twice_counts_once() {
    let metrics = record_metrics();
    let harness = Harness::with_faults(&[], Faults::none(), true);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(6)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    process.work_for(Duration::from_secs(120)).await;
    invariants::paid_once(&harness.vision, 0);
    let recorded = metrics.recorded();
    assert_eq!(recorded["pages_processed_total{ai}"], 6.0);
    assert_eq!(recorded["provider_requests_total{openai,gpt-5.4,answered}"], 6.0);
    assert_eq!(recorded["job_duration_seconds{success}"], 1.0);
    // Finalized a second time.
    finalize(&process.app.finisher, &job.id, Cause::Settled).await.unwrap();
    assert_eq!(metrics.recorded(), expected(&[]));
}

#[tokio::test(start_paused = true)]
async fn cancelled_and_failed_jobs_are_counted() {
    let metrics = record_metrics();
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|_, _| Reply::Hang);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let (job, ()) = futures::future::join(process.finish(&id), async {
        harness.advance(Duration::from_secs(2)).await;
        cancel(&process.app.store, process.app.flow.as_ref(), &process.app.interrupts, &id, "test")
            .await
            .unwrap();
    })
    .await;
    assert_eq!(job.state, State::Cancelled);
    let recorded = metrics.recorded();
    assert_eq!(recorded["job_duration_seconds{cancelled}"], 1.0);
    assert_eq!(recorded["pages_processed_total{mupdf_fallback}"], 2.0);
    assert_eq!(recorded["provider_requests_total{openai,gpt-5.4,cut_off}"], 2.0);

    let id = process.submit(&locked()).await.unwrap().job.id;
    assert_eq!(process.finish(&id).await.state, State::Failed);
    assert_eq!(
        metrics.recorded(),
        expected(&[("dlq_added_total{job}", 1.0), ("job_duration_seconds{failed}", 1.0)])
    );
}

/// Whichever storage call fails, and whether or not it took effect: every page and job counts once.
#[tokio::test(start_paused = true)]
async fn a_storage_fault_is_counted_and_nothing_counts_twice() {
    let pairs = [("WORKER_CONCURRENCY", "2"), ("RANGE_PAGES", "2")];
    let run = async |faults| {
        let metrics = record_metrics();
        let harness = Harness::with_faults(&pairs, faults, false);
        harness.vision.set_behaviour(|target, page| match (target.model.as_str(), page) {
            ("gpt-5.4", 4) => Reply::down(),
            _ => Reply::AnswerAfter(Duration::from_millis(300), read_by(target, page)),
        });
        let process = harness.start("a");
        let id = loop {
            match process.submit(&FakeDocument::mixed(4)).await {
                Ok(submitted) => break submitted.job.id,
                Err(_) => harness.advance(Duration::from_secs(1)).await,
            }
        };
        process.finish(&id).await;
        (metrics.recorded(), harness.faults.calls(), harness.faults.failed_call())
    };
    let without_faults = run(Faults::none()).await;
    assert_eq!(without_faults, run(Faults::none()).await, "a run is deterministic");
    let calls = without_faults.1;
    let mut totals = BTreeMap::new();
    for at in 0..calls {
        for mode in [Mode::Refuse, Mode::LoseReply] {
            let (recorded, _, failed_call) = run(Faults::at(at, 1, mode)).await;
            let what = format!("{mode:?} of call {at} ({failed_call:?}): {recorded:?}");
            assert_eq!(recorded["pages_processed_total{ai}"], 2.0, "{what}");
            assert_eq!(recorded["pages_processed_total{mupdf}"], 2.0, "{what}");
            assert_eq!(recorded["job_duration_seconds{success}"], 1.0, "{what}");
            for (name, count) in recorded {
                *totals.entry(name).or_insert(0.0) += count;
            }
        }
    }
    assert!(totals["operation_retries_total{}"] > calls as f64, "{totals:?}");
    assert!(totals["breaker_events_total{openai,gpt-5.4,fail_open}"] > 0.0, "{totals:?}");
    assert!(totals["breaker_events_total{openai,*,fail_open}"] > 0.0, "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_measured_by_the_sweep_and_on_demand() {
    let metrics = record_metrics();
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&locked()).await.unwrap().job.id;
    process.finish(&id).await;
    metrics.recorded();
    sweep(&process.app.recovery).await;
    assert_eq!(metrics.recorded(), expected(&[("dlq_depth{}", 1.0)]));
    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    purge(&process.app.store, &dead_letters[0].value.id, "test").await.unwrap();
    measure(&process.app.store, process.app.queue.as_ref(), &process.app.reader.breakers).await.unwrap();
    assert_eq!(metrics.recorded(), expected(&[]), "zero");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_counts_until_it_expires() {
    let metrics = record_metrics();
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "1")]);
    harness.vision.set_behaviour(|target, page| match target.model.as_str() {
        "gpt-5.4" => Reply::down(),
        _ => Reply::Answer(read_by(target, page)),
    });
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    metrics.recorded();
    measure(&process.app.store, process.app.queue.as_ref(), &process.app.reader.breakers).await.unwrap();
    assert_eq!(metrics.recorded(), expected(&[("breakers_open{}", 1.0)]));
    // It was not used since, so it expired.
    harness.advance(Duration::from_secs(601)).await;
    measure(&process.app.store, process.app.queue.as_ref(), &process.app.reader.breakers).await.unwrap();
    assert_eq!(metrics.recorded(), expected(&[]), "zero");
}

/// As a server does it: the recorder is installed first, gauges are measured at each scrape.
#[tokio::test(start_paused = true)]
async fn prometheus_renders_every_metric_as_text() {
    // For the whole process; the other tests record their own threads.
    let prometheus = Prometheus::install().unwrap();
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    process.finish(&id).await;
    measure(&process.app.store, process.app.queue.as_ref(), &process.app.reader.breakers).await.unwrap();
    let text = prometheus.render();
    for line in [
        r#"everypage_pages_processed_total{result="ai"} 2"#,
        r#"everypage_pages_processed_total{result="mupdf"} 2"#,
        r#"everypage_provider_requests_total{provider="openai",model="gpt-5.4",result="answered"} 2"#,
        r#"everypage_provider_latency_seconds_bucket{provider="openai",model="gpt-5.4",le="1"} 2"#,
        r#"everypage_provider_cost_usd_total{provider="openai",model="gpt-5.4"} 0.002"#,
        r#"everypage_job_duration_seconds_count{status="success"} 1"#,
        r#"everypage_queue_depth{priority="urgent"} 0"#,
        r#"everypage_jobs_waiting{priority="normal"} 0"#,
        "everypage_jobs_open 0",
        "everypage_breakers_open 0",
        "everypage_dlq_depth 0",
        "# TYPE everypage_provider_cost_usd_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn operations_are_measured_by_type_priority_and_end() {
    let metrics = record_metrics();
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let (store, vault) = (&process.app.store, process.app.vault.as_ref());
    webhooks::set(store, vault, &TenantId::new("local"), "https://example.com/hook", "test").await.unwrap();
    harness.hooks.fail_next(1);
    let id = process.submit(&FakeDocument::mixed(4)).await.unwrap().job.id;
    process.finish(&id).await;
    relay::relay(&process.app.publisher, "a").await.unwrap();
    deliver::run_for(&process.app.publisher, Duration::from_secs(30)).await.unwrap();
    let failed = process.submit(&locked()).await.unwrap().job.id;
    process.finish(&failed).await;
    let recorded = metrics.operations();
    for (name, count) in [
        ("open,normal,done", 1.0),
        ("open,normal,failed", 1.0),
        ("text,normal,done", 1.0),
        ("images,normal,done", 1.0),
        ("page,normal,done", 2.0),
        ("webhook,normal,failed", 1.0),
        ("webhook,normal,done", 1.0),
    ] {
        assert_eq!(recorded.get(name), Some(&count), "{name}: {recorded:?}");
    }
}

/// Each kind of end that leaves a dead letter counts once, however often it is repeated.
#[tokio::test(start_paused = true)]
async fn dead_letters_are_counted_by_their_reason() {
    let metrics = record_metrics();
    let harness = Harness::new(&[("BREAKER_FAILURE_THRESHOLD", "1000"), ("PATIENCE", "0")]);
    harness.vision.set_behaviour(|_, _| Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }));
    let process = harness.start("a");
    let (store, vault) = (&process.app.store, process.app.vault.as_ref());
    webhooks::set(store, vault, &TenantId::new("local"), "https://example.com/hook", "test").await.unwrap();
    harness.hooks.fail_next(4);
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    process.finish(&id).await;
    relay::relay(&process.app.publisher, "a").await.unwrap();
    deliver::run_for(&process.app.publisher, Duration::from_secs(60)).await.unwrap();
    let message = Outgoing {
        name: "m".into(),
        job: id,
        lane: Priority::Normal,
        body: "not a message".into(),
        delay: Duration::ZERO,
    };
    for _ in 0..2 {
        harness.queue.send(std::slice::from_ref(&message)).await.unwrap();
        process.work_for(Duration::from_secs(5)).await;
    }
    let recorded = metrics.recorded();
    let added: BTreeMap<&str, f64> = recorded
        .iter()
        .filter_map(|(name, count)| Some((name.strip_prefix("dlq_added_total")?, *count)))
        .collect();
    assert_eq!(added, BTreeMap::from([("{unknown}", 1.0), ("{unreadable}", 1.0), ("{webhook}", 1.0)]));
}
