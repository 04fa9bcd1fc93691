//! What is counted and measured: every metric defined once, and the only places that name one.
//!
//! Recording goes through the `metrics` facade; without a recorder it costs next to nothing. Whoever
//! runs installs one: a function for CloudWatch, a server for Prometheus, a test for itself.
//!
//! | metric | labels | what it says |
//! | --- | --- | --- |
//! | `everypage_provider_requests_total` | `provider`, `model`, `result` | calls to a model, by how they ended: `answered`; `timeout`, `transient`, `exhausted`, `configuration`, `request`, `unknown` for no answer; `refusal`, `empty`, `truncated`, `repeating`, `incomplete` for one that was not the page; `cut_off` when the job's end or the worker's came first |
//! | `everypage_provider_latency_seconds` | `provider`, `model` | how long a call took, timeouts included; a call that was cut off says nothing about its model |
//! | `everypage_provider_tokens_total` | `provider`, `model`, `direction` | tokens of answers, `input` and `output` |
//! | `everypage_provider_cost_usd_total` | `provider`, `model` | what those tokens cost |
//! | `everypage_failover_events_total` | `from_provider`, `to_provider` | calls to a model that was not the page's first choice; `from_provider` is the step before, failed or passed by. The two are the same when a provider's other model is asked |
//! | `everypage_breaker_events_total` | `provider`, `model`, `action` | a breaker `opened`, sent a probe (`half_open`) or `closed`; `fail_open` when its store could not be asked and it was ignored. `model` is `*` for a whole provider |
//! | `everypage_breakers_open` | | breakers that are open or half open now |
//! | `everypage_pages_processed_total` | `result` | pages by where their text came from: `ai`, `mupdf`, `mupdf_fallback`, `mupdf_timeout_fallback`. Counted when the result is published, once per page; a page that heals is counted once more, as `ai` |
//! | `everypage_job_duration_seconds` | `status` | from acceptance (of a redriven job: from its redrive) to the result, or to whatever else was its end: `success`, `failed`, `rejected`, `cancelled` |
//! | `everypage_credits_reserved_total` | | credits that were held for jobs; nothing where they are unlimited |
//! | `everypage_credits_settled_total` | | credits that jobs paid |
//! | `everypage_saga_duration_seconds` | `status` | from the beginning of a purchase of credits to its rest: `completed`, `compensated`, `manual`, `resolved` |
//! | `everypage_sagas_waiting` | | purchases of credits that wait for a person, counted as dead letters are |
//! | `everypage_saga_compensations_total` | `result` | steps of purchases that were undone (`done`) or could not be (`stuck`) |
//! | `everypage_timeout_events_total` | `type` | `request`: a call ended by `REQUEST_TIMEOUT`; `job`: a job ended by its deadline |
//! | `everypage_operation_retries_total` | | our own storage, queue and flow calls that were tried again |
//! | `everypage_queue_depth` | `priority` | page messages that wait or are worked on, by lane; on AWS that is SQS's own metric |
//! | `everypage_dlq_depth` | | dead letters that wait for a person; [`MAX_COUNTED_DEAD_LETTERS`] stands for that many or more |
//!
//! Counting follows what was stored: an event that is written once is counted once, however often
//! its message is delivered. A process that dies between the two loses the count, never doubles it.
//! Labels are names from settings and lists of ours: no document, tenant or job is ever one.

use ::metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::ids::Priority;

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows, by whole numbers.
    Counter,
    /// Only grows, by fractions too. The facade counts whole numbers only, so that this is recorded as
    /// a gauge that is never set, only incremented.
    Sum,
    Gauge,
    /// With the upper bounds of its buckets, where the recorder needs them.
    Histogram(&'static [f64]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// None for money, which the facade knows no unit for.
    pub unit: Option<Unit>,
    pub description: &'static str,
    /// False for what AWS measures itself.
    pub on_aws: bool,
}

/// A metric with `L` labels.
pub(crate) struct Metric<const L: usize>(Definition);

impl<const L: usize> Metric<L> {
    const fn new(
        name: &'static str,
        kind: Kind,
        labels: &'static [&'static str; L],
        description: &'static str,
    ) -> Self {
        let unit = match kind {
            Kind::Sum => None,
            Kind::Histogram(_) => Some(Unit::Seconds),
            Kind::Counter | Kind::Gauge => Some(Unit::Count),
        };
        Self(Definition { name, kind, labels, unit, description, on_aws: true })
    }

    fn labels(&self, values: [SharedString; L]) -> Vec<Label> {
        self.0.labels.iter().zip(values).map(|(name, value)| Label::new(*name, value)).collect()
    }

    pub(crate) fn count(&self, values: [SharedString; L], by: u64) {
        debug_assert_eq!(self.0.kind, Kind::Counter);
        counter!(self.0.name, self.labels(values)).increment(by);
    }

    pub(crate) fn add(&self, values: [SharedString; L], amount: f64) {
        debug_assert_eq!(self.0.kind, Kind::Sum);
        gauge!(self.0.name, self.labels(values)).increment(amount);
    }

    pub(crate) fn set(&self, values: [SharedString; L], value: f64) {
        debug_assert_eq!(self.0.kind, Kind::Gauge);
        gauge!(self.0.name, self.labels(values)).set(value);
    }

    pub(crate) fn record(&self, values: [SharedString; L], value: f64) {
        debug_assert!(matches!(self.0.kind, Kind::Histogram(_)));
        histogram!(self.0.name, self.labels(values)).record(value);
    }
}

/// Around the 120 s that a call may take.
const LATENCY_BUCKETS: [f64; 7] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0];
/// Around the 5 minutes that a job may take; some are given more.
const DURATION_BUCKETS: [f64; 10] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0];

pub(crate) static PROVIDER_REQUESTS: Metric<3> = Metric::new(
    "everypage_provider_requests_total",
    Kind::Counter,
    &["provider", "model", "result"],
    "Calls to a model, by how they ended",
);
pub(crate) static PROVIDER_LATENCY: Metric<2> = Metric::new(
    "everypage_provider_latency_seconds",
    Kind::Histogram(&LATENCY_BUCKETS),
    &["provider", "model"],
    "How long calls to a model took, timeouts included",
);
pub(crate) static PROVIDER_TOKENS: Metric<3> = Metric::new(
    "everypage_provider_tokens_total",
    Kind::Counter,
    &["provider", "model", "direction"],
    "Tokens of answers",
);
pub(crate) static PROVIDER_COST: Metric<2> = Metric::new(
    "everypage_provider_cost_usd_total",
    Kind::Sum,
    &["provider", "model"],
    "Cost of answers in US dollars",
);
pub(crate) static FAILOVERS: Metric<2> = Metric::new(
    "everypage_failover_events_total",
    Kind::Counter,
    &["from_provider", "to_provider"],
    "Calls to a model that was not the page's first choice",
);
pub(crate) static BREAKER_EVENTS: Metric<3> = Metric::new(
    "everypage_breaker_events_total",
    Kind::Counter,
    &["provider", "model", "action"],
    "Breakers that opened, sent a probe, closed, or were ignored because their store was away",
);
pub(crate) static BREAKERS_OPEN: Metric<0> =
    Metric::new("everypage_breakers_open", Kind::Gauge, &[], "Breakers that are open or half open");
pub(crate) static PAGES: Metric<1> = Metric::new(
    "everypage_pages_processed_total",
    Kind::Counter,
    &["result"],
    "Pages of published results, by where their text came from",
);
pub(crate) static JOB_DURATION: Metric<1> = Metric::new(
    "everypage_job_duration_seconds",
    Kind::Histogram(&DURATION_BUCKETS),
    &["status"],
    "From acceptance to the result, or to whatever else was the job's end",
);
pub(crate) static CREDITS_RESERVED: Metric<0> =
    Metric::new("everypage_credits_reserved_total", Kind::Counter, &[], "Credits held for jobs");
pub(crate) static CREDITS_SETTLED: Metric<0> =
    Metric::new("everypage_credits_settled_total", Kind::Counter, &[], "Credits that jobs paid");
pub(crate) static SAGA_DURATION: Metric<1> = Metric::new(
    "everypage_saga_duration_seconds",
    Kind::Histogram(&DURATION_BUCKETS),
    &["status"],
    "From the beginning of a purchase of credits to its rest",
);
pub(crate) static SAGAS_WAITING: Metric<0> =
    Metric::new("everypage_sagas_waiting", Kind::Gauge, &[], "Purchases of credits that wait for a person");
pub(crate) static SAGA_COMPENSATIONS: Metric<1> = Metric::new(
    "everypage_saga_compensations_total",
    Kind::Counter,
    &["result"],
    "Steps of purchases that were undone, or could not be",
);
pub(crate) static TIMEOUTS: Metric<1> = Metric::new(
    "everypage_timeout_events_total",
    Kind::Counter,
    &["type"],
    "Calls ended by their timeout, jobs ended by their deadline",
);
pub(crate) static RETRIES: Metric<0> = Metric::new(
    "everypage_operation_retries_total",
    Kind::Counter,
    &[],
    "Storage, queue and flow calls of our own that were tried again",
);
pub(crate) static QUEUE_DEPTH: Metric<1> = Metric(Definition {
    // SQS knows it, without anybody having to ask every minute.
    on_aws: false,
    ..Metric::new("everypage_queue_depth", Kind::Gauge, &["priority"], "Page messages not done yet").0
});
pub(crate) static DLQ_DEPTH: Metric<0> =
    Metric::new("everypage_dlq_depth", Kind::Gauge, &[], "Dead letters that wait for a person");

/// Where CloudWatch keeps them.
pub const NAMESPACE: &str = "Everypage";

/// Every metric there is.
pub static ALL: [&Definition; 18] = [
    &PROVIDER_REQUESTS.0,
    &PROVIDER_LATENCY.0,
    &PROVIDER_TOKENS.0,
    &PROVIDER_COST.0,
    &FAILOVERS.0,
    &BREAKER_EVENTS.0,
    &BREAKERS_OPEN.0,
    &PAGES.0,
    &JOB_DURATION.0,
    &CREDITS_RESERVED.0,
    &CREDITS_SETTLED.0,
    &SAGA_DURATION.0,
    &SAGA_COMPENSATIONS.0,
    &SAGAS_WAITING.0,
    &TIMEOUTS.0,
    &RETRIES.0,
    &QUEUE_DEPTH.0,
    &DLQ_DEPTH.0,
];

/// Counting more would mean reading more, every minute.
pub const MAX_COUNTED_DEAD_LETTERS: usize = 1000;

/// Tells the recorder in charge what each metric is; once, after it was installed.
pub fn describe() {
    for Definition { name, kind, unit, description, .. } in ALL {
        // Money is counted in something, but the facade has no word for it.
        let (name, unit, description) = (*name, unit.unwrap_or(Unit::Count), *description);
        match kind {
            Kind::Counter => describe_counter!(name, unit, description),
            Kind::Sum | Kind::Gauge => describe_gauge!(name, unit, description),
            Kind::Histogram(_) => describe_histogram!(name, unit, description),
        }
    }
}

/// A call of our own is tried again.
pub(crate) fn retried() {
    RETRIES.count([], 1);
}

pub(crate) fn queue_depth(lane: Priority, waiting: u64) {
    QUEUE_DEPTH.set([lane.name().into()], waiting as f64);
}

pub(crate) fn breakers_open(open: usize) {
    BREAKERS_OPEN.set([], open as f64);
}

pub(crate) fn sagas_waiting(waiting: usize) {
    SAGAS_WAITING.set([], waiting as f64);
}

pub(crate) fn dlq_depth(waiting: usize) {
    DLQ_DEPTH.set([], waiting as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_are() {
        let mut names: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            assert!(metric.name.starts_with("everypage_"), "{}", metric.name);
            let grows = matches!(metric.kind, Kind::Counter | Kind::Sum);
            assert_eq!(grows, metric.name.ends_with("_total"), "{}", metric.name);
            let seconds = metric.unit == Some(Unit::Seconds);
            assert_eq!(seconds, metric.name.ends_with("_seconds"), "{}", metric.name);
            if let Kind::Histogram(buckets) = metric.kind {
                assert!(buckets.is_sorted(), "{}", metric.name);
            }
        }
    }

    #[test]
    fn the_table_above_is_whole() {
        let source = include_str!("metrics.rs");
        for metric in ALL {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!("//! | `{}` | {} |", metric.name, labels.join(", ")).replace("|  |", "| |");
            assert!(source.contains(&row), "{row}");
        }
    }
}
