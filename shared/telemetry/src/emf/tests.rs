use std::sync::atomic::{AtomicBool, Ordering};

use everypage_core::telemetry::metrics::Kind;
use everypage_testkit::{
    clock::{VirtualClock, epoch},
    pdf::FakeDocument,
};
use everypage_tests::harness::Harness;
use metrics::{counter, gauge, histogram, set_default_local_recorder, with_local_recorder};

use super::*;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Takes the documents that were written since the last time, one per line.
    fn take(&self) -> Vec<Value> {
        let bytes = std::mem::take(&mut *self.0.lock());
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn emf() -> (Emf, Log) {
    let log = Log::default();
    (Emf::new("Everypage/s", log.clone()), log)
}

/// Value and dimensions of each occurrence of a metric.
fn emitted<'a>(documents: &'a [Value], name: &str) -> Vec<(&'a Value, Vec<&'a str>)> {
    let of = documents.iter().filter(|document| document.get(name).is_some());
    of.map(|document| {
        let dimensions = document["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0].as_array().unwrap();
        (
            &document[name],
            dimensions.iter().map(|key| document[key.as_str().unwrap()].as_str().unwrap()).collect(),
        )
    })
    .collect()
}

#[test]
fn documents_have_the_format_that_cloudwatch_extracts() {
    let (emf, log) = emf();
    with_local_recorder(&emf, || {
        let labels = [("provider", "openai"), ("model", "gpt-5.4")];
        gauge!("everypage_provider_cost_usd_total", &labels).increment(0.25);
        gauge!("everypage_provider_cost_usd_total", &labels).increment(0.5);
        histogram!("everypage_provider_latency_seconds", &labels).record(1.5);
        histogram!("everypage_provider_latency_seconds", &labels).record(1.5);
        counter!("everypage_operation_retries_total").increment(2);
    });
    emf.emit(epoch());
    let timestamp = epoch().as_millisecond();
    assert_eq!(
        log.take(),
        [
            json!({
                "_aws": {"Timestamp": timestamp, "CloudWatchMetrics": [{
                    "Namespace": "Everypage/s",
                    "Dimensions": [[]],
                    "Metrics": [{"Name": "everypage_operation_retries_total", "Unit": "Count"}],
                }]},
                "everypage_operation_retries_total": 2.0,
            }),
            json!({
                "_aws": {"Timestamp": timestamp, "CloudWatchMetrics": [{
                    "Namespace": "Everypage/s",
                    "Dimensions": [["provider", "model"]],
                    "Metrics": [
                        {"Name": "everypage_provider_cost_usd_total", "Unit": "None"},
                        {"Name": "everypage_provider_latency_seconds", "Unit": "Seconds"},
                    ],
                }]},
                "provider": "openai",
                "model": "gpt-5.4",
                "everypage_provider_cost_usd_total": 0.75,
                "everypage_provider_latency_seconds": [1.5, 1.5],
            }),
        ]
    );
}

#[test]
fn values_are_emitted_once() {
    let (emf, log) = emf();
    with_local_recorder(&emf, || {
        for metric in ALL {
            let labels: Vec<Label> = metric.labels.iter().map(|label| Label::new(*label, "x")).collect();
            match metric.kind {
                Kind::Counter => counter!(metric.name, labels).increment(1),
                Kind::Sum => gauge!(metric.name, labels).increment(1.0),
                Kind::Gauge => gauge!(metric.name, labels).set(1.0),
                Kind::Histogram(_) => histogram!(metric.name, labels).record(1.0),
            }
        }
    });
    emf.emit(epoch());
    let first = log.take();
    for metric in ALL {
        let (value, dimensions) = emitted(&first, metric.name).pop().unwrap();
        assert_eq!((value, dimensions), (&json!(1.0), vec!["x"; metric.labels.len()]), "{}", metric.name);
    }
    emf.emit(epoch());
    assert_eq!(log.take(), Vec::<Value>::new());
    with_local_recorder(&emf, || counter!("everypage_operation_retries_total").increment(1));
    emf.emit(epoch());
    assert_eq!(emitted(&log.take(), "everypage_operation_retries_total"), [(&json!(1.0), vec![])]);
}

#[test]
fn many_values_are_split_over_documents_and_invalid_ones_left_out() {
    let (emf, log) = emf();
    with_local_recorder(&emf, || {
        for value in 0..250 {
            histogram!("everypage_job_duration_seconds", "status" => "success").record(f64::from(value));
        }
        histogram!("everypage_job_duration_seconds", "status" => "success").record(f64::NAN);
        histogram!("everypage_job_duration_seconds", "status" => "failed").record(f64::INFINITY);
    });
    emf.emit(epoch());
    let documents = log.take();
    let values: Vec<&Vec<Value>> = emitted(&documents, "everypage_job_duration_seconds")
        .into_iter()
        .map(|(values, dimensions)| {
            assert_eq!(dimensions, ["success"]);
            values.as_array().unwrap()
        })
        .collect();
    assert_eq!(values.iter().map(|values| values.len()).collect::<Vec<_>>(), [100, 100, 50]);
    let all: Vec<f64> = values.into_iter().flatten().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(all, (0..250).map(f64::from).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_an_invocation_are_emitted() {
    let (emf, log) = emf();
    let _listening = set_default_local_recorder(&emf);
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::mixed(6)).await.unwrap().job.id;
    emf.emit_during(harness.clock.as_ref(), process.finish(&id)).await;
    let documents = log.take();
    let pages = emitted(&documents, "everypage_pages_processed_total");
    assert_eq!(pages, [(&json!(3.0), vec!["ai"]), (&json!(3.0), vec!["mupdf"])]);
    let latency = emitted(&documents, "everypage_provider_latency_seconds");
    assert_eq!(latency.len(), 1);
    assert_eq!(latency[0].0.as_array().unwrap().len(), 3);
    assert_eq!(latency[0].1, ["openai", "gpt-5.4"]);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_emitted_when_an_invocation_fails_panics_or_is_dropped() {
    let (emf, log) = emf();
    let clock = VirtualClock::default();
    let retry = || with_local_recorder(&emf, || counter!("everypage_operation_retries_total").increment(1));
    let retries = || emitted(&log.take(), "everypage_operation_retries_total").len();

    let failed = emf.emit_during(&clock, async {
        retry();
        Err::<(), &str>("no")
    });
    assert!(failed.await.is_err());
    assert_eq!(retries(), 1);

    let panicking = emf.emit_during(&clock, async {
        retry();
        panic!("a bug");
    });
    assert!(catch_panic(panicking).await.is_err());
    assert_eq!(retries(), 1);

    let dropped = emf.emit_during(&clock, async {
        retry();
        std::future::pending::<()>().await;
    });
    let _ = tokio::time::timeout(Duration::from_millis(1), dropped).await;
    assert_eq!(retries(), 1);
}

/// Polls a future and catches its panic.
async fn catch_panic<T>(work: impl Future<Output = T>) -> std::thread::Result<T> {
    let mut work = std::pin::pin!(work);
    let polled = std::future::poll_fn(|context| {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
            Ok(std::task::Poll::Ready(value)) => std::task::Poll::Ready(Ok(value)),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    });
    polled.await
}

#[tokio::test(start_paused = true)]
async fn a_long_invocation_emits_metrics_before_its_end() {
    let (emf, log) = emf();
    let clock = VirtualClock::default();
    let emitted_early = AtomicBool::new(false);
    let work = async {
        with_local_recorder(&emf, || counter!("everypage_operation_retries_total").increment(1));
        clock.sleep(EMIT_INTERVAL + Duration::from_secs(1)).await;
        emitted_early.store(!log.take().is_empty(), Ordering::Relaxed);
    };
    emf.emit_during(&clock, work).await;
    assert!(emitted_early.load(Ordering::Relaxed));
    assert_eq!(log.take(), Vec::<Value>::new(), "emitted twice");
}
