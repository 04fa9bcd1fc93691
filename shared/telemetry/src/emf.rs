//! Metrics as log lines in CloudWatch's embedded metric format (EMF): CloudWatch extracts them from the
//! log, so emitting them needs no call.
//!
//! There is one document per set of dimensions, which are a metric's labels. A document holds what was
//! recorded since the previous one, and a gauge only if it was set since: a value that an instance
//! measured before it was frozen for an hour is no longer true.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    sync::Arc,
    time::Duration,
};

use everypage_core::{ports::clock::Clock, telemetry::metrics::ALL};
use jiff::Timestamp;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata, Recorder,
    SharedString, Unit,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// CloudWatch's limit for one metric of a document.
const MAX_VALUES: usize = 100;

/// How often a long invocation emits its metrics: Lambda may kill it before it ends.
const EMIT_INTERVAL: Duration = Duration::from_secs(30);

/// Buffers what is recorded until it is emitted.
#[derive(Clone)]
pub struct Emf {
    /// CloudWatch's name of the place where the metrics of one stack are.
    namespace: Arc<str>,
    buffers: Arc<Mutex<HashMap<Key, Arc<Buffer>>>>,
    out: Arc<Mutex<dyn Write + Send>>,
}

/// The values of one metric, with one set of label values, that are not emitted yet.
#[derive(Default)]
struct Buffer(Mutex<Vec<f64>>);

impl Buffer {
    /// Adds to the one value of a counter or gauge.
    fn add(&self, amount: f64) {
        let mut values = self.0.lock();
        match values.first_mut() {
            Some(sum) => *sum += amount,
            None => values.push(amount),
        }
    }

    fn replace(&self, value: f64) {
        *self.0.lock() = vec![value];
    }
}

impl CounterFn for Buffer {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.replace(value as f64);
    }
}

impl GaugeFn for Buffer {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.replace(value);
    }
}

impl HistogramFn for Buffer {
    fn record(&self, value: f64) {
        self.0.lock().push(value);
    }
}

impl Emf {
    pub fn new(namespace: &str, out: impl Write + Send + 'static) -> Self {
        Self { namespace: namespace.into(), buffers: Arc::default(), out: Arc::new(Mutex::new(out)) }
    }

    /// Starts to record this process's metrics and to emit them on standard output, from which Lambda
    /// takes its log. Where another recorder is installed already, that one stays and this emits
    /// nothing.
    pub fn install(namespace: &str) -> Self {
        let emf = Self::new(namespace, std::io::stdout());
        let _ = metrics::set_global_recorder(emf.clone());
        emf
    }

    /// Runs `work` and emits metrics in intervals and at its end, whether it succeeds, fails, panics or
    /// is dropped.
    pub async fn emit_during<T>(&self, clock: &dyn Clock, work: impl Future<Output = T>) -> T {
        let _at_end = EmitOnDrop { emf: self, clock };
        let emit_regularly = async {
            loop {
                clock.sleep(EMIT_INTERVAL).await;
                self.emit(clock.now());
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            never = emit_regularly => never,
        }
    }

    /// Writes what was recorded since the last time, one line per document. A write error loses the
    /// metrics: they are not worth failing the work for.
    pub fn emit(&self, now: Timestamp) {
        let lines: String = self.documents(now).iter().map(|document| format!("{document}\n")).collect();
        // In one write, so that no other line of the log gets between.
        let mut out = self.out.lock();
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }

    fn documents(&self, now: Timestamp) -> Vec<Value> {
        let buffers = self.buffers.lock();
        // Sorted by dimensions, then by name, so that the output is deterministic.
        let mut by_dimensions: BTreeMap<Vec<&Label>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for (key, buffer) in buffers.iter() {
            let mut values = std::mem::take(&mut *buffer.0.lock());
            // CloudWatch rejects the whole document for one value that is not finite.
            values.retain(|value| value.is_finite());
            if !values.is_empty() {
                by_dimensions.entry(key.labels().collect()).or_default().insert(key.name(), values);
            }
        }
        let mut documents = Vec::new();
        for (labels, mut metrics) in by_dimensions {
            while !metrics.is_empty() {
                documents.push(document(&self.namespace, now, &labels, &mut metrics));
            }
        }
        documents
    }

    fn buffer(&self, key: &Key) -> Arc<Buffer> {
        self.buffers.lock().entry(key.clone()).or_default().clone()
    }
}

struct EmitOnDrop<'a> {
    emf: &'a Emf,
    clock: &'a dyn Clock,
}

impl Drop for EmitOnDrop<'_> {
    fn drop(&mut self) {
        self.emf.emit(self.clock.now());
    }
}

/// Moves as much of `metrics` into one document as it may hold; the rest stays for the next.
fn document(
    namespace: &str,
    now: Timestamp,
    labels: &[&Label],
    metrics: &mut BTreeMap<&str, Vec<f64>>,
) -> Value {
    let mut members = Map::new();
    let mut definitions = Vec::new();
    metrics.retain(|name, values| {
        let rest = values.split_off(values.len().min(MAX_VALUES));
        let value = match std::mem::replace(values, rest).as_slice() {
            [one] => json!(one),
            many => json!(many),
        };
        members.insert((*name).to_owned(), value);
        definitions.push(json!({ "Name": name, "Unit": unit(name) }));
        !values.is_empty()
    });
    for label in labels {
        members.insert(label.key().to_owned(), json!(label.value()));
    }
    let names: Vec<&str> = labels.iter().map(|label| label.key()).collect();
    let directive = json!({ "Namespace": namespace, "Dimensions": [names], "Metrics": definitions });
    members.insert(
        "_aws".into(),
        json!({ "Timestamp": now.as_millisecond(), "CloudWatchMetrics": [directive] }),
    );
    Value::Object(members)
}

/// The unit of a metric under CloudWatch's name.
fn unit(name: &str) -> &'static str {
    let unit = ALL.iter().find(|metric| metric.name == name).and_then(|metric| metric.unit);
    match unit {
        Some(Unit::Count) => "Count",
        Some(Unit::Seconds) => "Seconds",
        // CloudWatch has no unit for money.
        _ => "None",
    }
}

impl Recorder for Emf {
    // Units come from the definitions, and EMF has no descriptions.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.buffer(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.buffer(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.buffer(key))
    }
}

#[cfg(test)]
mod tests;
