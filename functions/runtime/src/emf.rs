//! Metrics as lines of the log, in CloudWatch's embedded metric format: CloudWatch reads them out of
//! it, and no call is made for them.
//!
//! One document per set of dimensions, which are a metric's labels. A document says what happened
//! since the one before, and a gauge is told only when it was set: what an instance measured an hour
//! ago, before it was frozen, is nobody's depth today.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use everypage_core::{
    metrics::{ALL, NAMESPACE},
    ports::clock::Clock,
};
use jiff::Timestamp;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata, Recorder,
    SharedString, Unit,
};
use serde_json::{Map, Value, json};

/// As many values as CloudWatch takes from one metric of a document.
const VALUES: usize = 100;

/// How often a long invocation tells what it has: Lambda may end it by force before it ends itself.
const BETWEEN: Duration = Duration::from_secs(30);

/// Gathers what is recorded until it is told.
#[derive(Clone)]
pub struct Emf {
    gathered: Arc<Mutex<HashMap<Key, Arc<Gathered>>>>,
    out: Arc<Mutex<dyn Write + Send>>,
}

/// What one metric, with one set of label values, gathered since it was last told.
#[derive(Default)]
struct Gathered(Mutex<Vec<f64>>);

impl Gathered {
    fn values(&self) -> MutexGuard<'_, Vec<f64>> {
        lock(&self.0)
    }

    /// For what is one number: added to, or begun.
    fn add(&self, amount: f64) {
        let mut values = self.values();
        match values.first_mut() {
            Some(sum) => *sum += amount,
            None => values.push(amount),
        }
    }

    fn put(&self, value: f64) {
        *self.values() = vec![value];
    }
}

impl CounterFn for Gathered {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.put(value as f64);
    }
}

impl GaugeFn for Gathered {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.put(value);
    }
}

impl HistogramFn for Gathered {
    fn record(&self, value: f64) {
        self.values().push(value);
    }
}

impl Emf {
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { gathered: Arc::default(), out: Arc::new(Mutex::new(out)) }
    }

    /// From here on this process's metrics are gathered, and told on standard output, where Lambda
    /// takes its log from. In a process that has a recorder already that one goes on, and this has
    /// nothing to tell.
    pub fn install() -> Self {
        let emf = Self::new(std::io::stdout());
        let _ = metrics::set_global_recorder(emf.clone());
        emf
    }

    /// Does `work`, telling what is gathered from time to time and at its end: whether it succeeds,
    /// fails, panics or is dropped.
    pub async fn around<T>(&self, clock: &dyn Clock, work: impl Future<Output = T>) -> T {
        let _at_the_end = AtTheEnd { emf: self, clock };
        let from_time_to_time = async {
            loop {
                clock.sleep(BETWEEN).await;
                self.tell(clock.now());
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            never = from_time_to_time => never,
        }
    }

    /// Writes what was gathered since the last time, a line per document. Metrics are worth no error:
    /// what can't be written is lost.
    pub fn tell(&self, now: Timestamp) {
        let lines: String = self.documents(now).iter().map(|document| format!("{document}\n")).collect();
        // In one piece: a line of the log must not fall into the middle of one of these.
        let mut out = lock(&self.out);
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }

    fn documents(&self, now: Timestamp) -> Vec<Value> {
        let all = lock(&self.gathered);
        // By dimensions, then by name: the order is the same each time.
        let mut told: BTreeMap<Vec<&Label>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for (key, gathered) in all.iter() {
            let mut values = std::mem::take(&mut *gathered.values());
            // CloudWatch refuses the whole document for one value that is no number.
            values.retain(|value| value.is_finite());
            if !values.is_empty() {
                told.entry(key.labels().collect()).or_default().insert(key.name(), values);
            }
        }
        let mut documents = Vec::new();
        for (labels, mut metrics) in told {
            while !metrics.is_empty() {
                documents.push(document(now, &labels, &mut metrics));
            }
        }
        documents
    }

    fn of(&self, key: &Key) -> Arc<Gathered> {
        lock(&self.gathered).entry(key.clone()).or_default().clone()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct AtTheEnd<'a> {
    emf: &'a Emf,
    clock: &'a dyn Clock,
}

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.emf.tell(self.clock.now());
    }
}

/// One document with as much of `metrics` as it may hold; the rest stays for the next.
fn document(now: Timestamp, labels: &[&Label], metrics: &mut BTreeMap<&str, Vec<f64>>) -> Value {
    let mut members = Map::new();
    let mut definitions = Vec::new();
    metrics.retain(|name, values| {
        let rest = values.split_off(values.len().min(VALUES));
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
    let directive = json!({ "Namespace": NAMESPACE, "Dimensions": [names], "Metrics": definitions });
    members.insert(
        "_aws".into(),
        json!({ "Timestamp": now.as_millisecond(), "CloudWatchMetrics": [directive] }),
    );
    Value::Object(members)
}

/// As CloudWatch calls it.
fn unit(name: &str) -> &'static str {
    let unit = ALL.iter().find(|metric| metric.name == name).and_then(|metric| metric.unit);
    match unit {
        Some(Unit::Count) => "Count",
        Some(Unit::Seconds) => "Seconds",
        // Money, which CloudWatch has no unit for, and whatever else has none.
        _ => "None",
    }
}

impl Recorder for Emf {
    // Units and descriptions are those of the definitions.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

#[cfg(test)]
mod tests;
