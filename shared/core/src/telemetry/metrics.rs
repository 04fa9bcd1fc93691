//! The metrics: every name and label is defined here, once.
//!
//! Recording goes through the `metrics` facade; without a recorder it costs next to nothing. The
//! process installs one: a function for CloudWatch, a server for Prometheus, a test its own.
//!
//! | metric | labels | meaning |
//! | --- | --- | --- |
//! | `everypage_provider_requests_total` | `provider`, `model`, `result` | model calls, by result: `answered`; `timeout`, `transient`, `exhausted`, `configuration`, `request`, `unknown` if there was no answer; `refusal`, `empty`, `truncated`, `repeating`, `incomplete`, `invented` if the answer was not the page; `cut_off` if another model, the job or the worker ended first |
//! | `everypage_provider_latency_seconds` | `provider`, `model` | duration of model calls, timeouts included; without calls that were cut off, which show nothing about the model |
//! | `everypage_provider_tokens_total` | `provider`, `model`, `direction` | tokens of answers, `input` and `output` |
//! | `everypage_provider_cost_usd_total` | `provider`, `model` | cost of those tokens |
//! | `everypage_failover_events_total` | `from_provider`, `to_provider` | calls to a model that was not the page's first choice; `from_provider` is that of the previous step, which failed or was skipped. The two are equal when another model of the same provider is called |
//! | `everypage_breaker_events_total` | `provider`, `model`, `action` | a breaker `opened`, sent a probe (`half_open`) or `closed`; `fail_open` if its record could not be read and it was ignored. `model` is `*` for a whole provider |
//! | `everypage_inflight_limit` | `provider`, `model` | calls to a model that may be in flight, by all workers together, as this process saw it last |
//! | `everypage_hedges_total` | `result` | calls that were doubled with another model because they took long: that one answered (`won`) or not (`lost`) |
//! | `everypage_page_rounds` | | rounds over the models that a settled page took |
//! | `everypage_page_confidence` | | how far the text that a model read agrees with the page's own text, 0 to 1; pages without text to compare it with do not count |
//! | `everypage_breakers_open` | | breakers that are open or half open now |
//! | `everypage_pages_processed_total` | `result` | pages, by the source of their text: `ai`, `mupdf`, `mupdf_fallback`, `mupdf_timeout_fallback`, and the same for `ocr`. Counted when the result is published, once per page; a page that heals is counted again, as `ai` |
//! | `everypage_job_duration_seconds` | `status` | time from admission to the end of the job: `success`, `failed`, `rejected`, `cancelled` |
//! | `everypage_credits_reserved_total` | | credits reserved for jobs; not recorded while credits are unlimited |
//! | `everypage_credits_settled_total` | | credits that jobs spent |
//! | `everypage_saga_duration_seconds` | `saga`, `status` | time from the start of a saga to its end; sagas are purchases of credits (`purchase`) and erasures of tenants (`erasure`): `completed`, `compensated`, `manual`, `resolved` |
//! | `everypage_sagas_waiting` | | purchases of credits and erasures of tenants that wait for an operator, counted like dead letters |
//! | `everypage_saga_compensations_total` | `saga`, `result` | steps of sagas that were undone (`done`) or could not be undone (`stuck`) |
//! | `everypage_timeout_events_total` | `type` | `request`: a model call ended by `REQUEST_TIMEOUT`; `job`: a job ended by its deadline |
//! | `everypage_operation_retries_total` | | storage, queue and flow calls that were retried |
//! | `everypage_operation_processing_seconds` | `type`, `priority`, `status` | time that one operation took: `open`, `text` and `images` of a document, a delivery of a `page`, an attempt at a `webhook`; by the priority of its job or event; `done`, `failed`, or `returned` for a page that comes back later |
//! | `everypage_ocr_seconds` | | time that OCR took for a page, the wait for an idle core included |
//! | `everypage_accounts_drifted` | | accounts that differ from their trails and wait for a repair |
//! | `everypage_jobs_open` | | documents that are admitted and have not ended: at most `MAX_OPEN_JOBS`, and those that are due |
//! | `everypage_jobs_waiting` | `priority` | documents that wait for room; counted up to 1,000, the higher priorities first |
//! | `everypage_queue_depth` | `priority` | page messages that are waiting or being processed, by lane; on AWS it is SQS's own `ApproximateNumberOfMessagesVisible` and `…NotVisible` of each lane's queue |
//! | `everypage_dlq_added_total` | `reason` | dead letters that were added: a document that failed (`job`), a page that was given up for an error of ours (`gave_up`), because its worker died each time (`crashed`) or after an error of an unknown kind (`unknown`), a message or upload that can't be read (`unreadable`), a message that no server accepted (`webhook`) |
//! | `everypage_dlq_depth` | | dead letters that wait for an operator; [`MAX_COUNTED_DEAD_LETTERS`] means that many or more |
//!
//! Counts follow what was stored: an event that is written once is counted once, however often its
//! message is delivered. A process that dies between the two loses the count and never doubles it.
//! Labels are names from settings and fixed lists, never a document, tenant or job.

use std::time::Duration;

use ::metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::{ids::Priority, ports::clock::Clock, time::until};

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows, by whole numbers.
    Counter,
    /// Only grows, by fractions too. The facade counts whole numbers only, so this is recorded as a
    /// gauge that is only ever incremented.
    Sum,
    Gauge,
    /// With the upper bounds of its buckets, for recorders that need them.
    Histogram(&'static [f64]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// `None` for money, for which the facade has no unit.
    pub unit: Option<Unit>,
    pub description: &'static str,
    /// False if AWS measures it itself.
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

    /// A histogram of numbers instead of seconds.
    const fn of_numbers(self) -> Self {
        Self(Definition { unit: Some(Unit::Count), ..self.0 })
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

/// Bounds around the 120 s of `REQUEST_TIMEOUT`.
const LATENCY_BUCKETS: [f64; 7] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0];
/// Bounds around the 5 minutes of `JOB_TIMEOUT`, with room for jobs that have a longer deadline.
const DURATION_BUCKETS: [f64; 10] = [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0];

pub(crate) static PROVIDER_REQUESTS: Metric<3> = Metric::new(
    "everypage_provider_requests_total",
    Kind::Counter,
    &["provider", "model", "result"],
    "Model calls, by result",
);
pub(crate) static PROVIDER_LATENCY: Metric<2> = Metric::new(
    "everypage_provider_latency_seconds",
    Kind::Histogram(&LATENCY_BUCKETS),
    &["provider", "model"],
    "Duration of model calls, timeouts included",
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
    "Breakers that opened, sent a probe, closed, or were ignored because their record could not be read",
);
pub(crate) static INFLIGHT_LIMIT: Metric<2> = Metric::new(
    "everypage_inflight_limit",
    Kind::Gauge,
    &["provider", "model"],
    "Calls to a model that may be in flight, by all workers together",
);
pub(crate) static HEDGES: Metric<1> = Metric::new(
    "everypage_hedges_total",
    Kind::Counter,
    &["result"],
    "Calls that were doubled with another model because they took long",
);
pub(crate) static PAGE_ROUNDS: Metric<0> = Metric::new(
    "everypage_page_rounds",
    Kind::Histogram(&[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0]),
    &[],
    "Rounds over the models that a settled page took",
)
.of_numbers();
pub(crate) static OCR_SECONDS: Metric<0> = Metric::new(
    "everypage_ocr_seconds",
    Kind::Histogram(&[0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0]),
    &[],
    "Time that OCR took for a page",
);
pub(crate) static PAGE_CONFIDENCE: Metric<0> = Metric::new(
    "everypage_page_confidence",
    Kind::Histogram(&[0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]),
    &[],
    "How far the text that a model read agrees with the page's own text",
)
.of_numbers();
pub(crate) static BREAKERS_OPEN: Metric<0> =
    Metric::new("everypage_breakers_open", Kind::Gauge, &[], "Breakers that are open or half open");
pub(crate) static PAGES: Metric<1> = Metric::new(
    "everypage_pages_processed_total",
    Kind::Counter,
    &["result"],
    "Pages of published results, by the source of their text",
);
pub(crate) static JOB_DURATION: Metric<1> = Metric::new(
    "everypage_job_duration_seconds",
    Kind::Histogram(&DURATION_BUCKETS),
    &["status"],
    "Time from acceptance of a job to its end",
);
pub(crate) static CREDITS_RESERVED: Metric<0> =
    Metric::new("everypage_credits_reserved_total", Kind::Counter, &[], "Credits reserved for jobs");
pub(crate) static CREDITS_SETTLED: Metric<0> =
    Metric::new("everypage_credits_settled_total", Kind::Counter, &[], "Credits that jobs spent");
pub(crate) static SAGA_DURATION: Metric<2> = Metric::new(
    "everypage_saga_duration_seconds",
    Kind::Histogram(&DURATION_BUCKETS),
    &["saga", "status"],
    "Time from the start of a saga to its end",
);
pub(crate) static SAGAS_WAITING: Metric<0> =
    Metric::new("everypage_sagas_waiting", Kind::Gauge, &[], "Sagas that wait for an operator");
pub(crate) static SAGA_COMPENSATIONS: Metric<2> = Metric::new(
    "everypage_saga_compensations_total",
    Kind::Counter,
    &["saga", "result"],
    "Steps of sagas that were undone or could not be undone",
);
pub(crate) static TIMEOUTS: Metric<1> = Metric::new(
    "everypage_timeout_events_total",
    Kind::Counter,
    &["type"],
    "Model calls ended by their timeout, jobs ended by their deadline",
);
pub(crate) static RETRIES: Metric<0> = Metric::new(
    "everypage_operation_retries_total",
    Kind::Counter,
    &[],
    "Storage, queue and flow calls that were retried",
);
pub(crate) static ACCOUNTS_DRIFTED: Metric<0> = Metric::new(
    "everypage_accounts_drifted",
    Kind::Gauge,
    &[],
    "Accounts that differ from their trails and wait for a repair",
);
pub(crate) static JOBS_OPEN: Metric<0> =
    Metric::new("everypage_jobs_open", Kind::Gauge, &[], "Documents that are admitted and have not ended");
pub(crate) static JOBS_WAITING: Metric<1> =
    Metric::new("everypage_jobs_waiting", Kind::Gauge, &["priority"], "Documents that wait for room");
pub(crate) static QUEUE_DEPTH: Metric<1> = Metric(Definition {
    // SQS reports it without a request every minute.
    on_aws: false,
    ..Metric::new(
        "everypage_queue_depth",
        Kind::Gauge,
        &["priority"],
        "Page messages that are waiting or being processed",
    )
    .0
});
pub(crate) static OPERATIONS: Metric<3> = Metric::new(
    "everypage_operation_processing_seconds",
    Kind::Histogram(&DURATION_BUCKETS),
    &["type", "priority", "status"],
    "Time that one operation took",
);
pub(crate) static DLQ_ADDED: Metric<1> = Metric::new(
    "everypage_dlq_added_total",
    Kind::Counter,
    &["reason"],
    "Dead letters that were added, by reason",
);
pub(crate) static DLQ_DEPTH: Metric<0> =
    Metric::new("everypage_dlq_depth", Kind::Gauge, &[], "Dead letters that wait for an operator");

/// Every metric.
pub static ALL: [&Definition; 28] = [
    &PROVIDER_REQUESTS.0,
    &PROVIDER_LATENCY.0,
    &PROVIDER_TOKENS.0,
    &PROVIDER_COST.0,
    &FAILOVERS.0,
    &BREAKER_EVENTS.0,
    &INFLIGHT_LIMIT.0,
    &HEDGES.0,
    &PAGE_ROUNDS.0,
    &OCR_SECONDS.0,
    &BREAKERS_OPEN.0,
    &PAGE_CONFIDENCE.0,
    &PAGES.0,
    &JOB_DURATION.0,
    &CREDITS_RESERVED.0,
    &CREDITS_SETTLED.0,
    &SAGA_DURATION.0,
    &SAGA_COMPENSATIONS.0,
    &SAGAS_WAITING.0,
    &TIMEOUTS.0,
    &RETRIES.0,
    &ACCOUNTS_DRIFTED.0,
    &JOBS_OPEN.0,
    &JOBS_WAITING.0,
    &QUEUE_DEPTH.0,
    &OPERATIONS.0,
    &DLQ_ADDED.0,
    &DLQ_DEPTH.0,
];

/// The upper limit of the dead letter gauge: counting more would mean reading more every minute.
pub const MAX_COUNTED_DEAD_LETTERS: usize = 1000;

/// Describes each metric to the installed recorder; called once, after the installation.
pub fn describe() {
    for Definition { name, kind, unit, description, .. } in ALL {
        // Money has no unit in the facade.
        let (name, unit, description) = (*name, unit.unwrap_or(Unit::Count), *description);
        match kind {
            Kind::Counter => describe_counter!(name, unit, description),
            Kind::Sum | Kind::Gauge => describe_gauge!(name, unit, description),
            Kind::Histogram(_) => describe_histogram!(name, unit, description),
        }
    }
}

/// A kind of work whose duration is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Operation {
    Open,
    Text,
    Images,
    Page,
    Webhook,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Ended {
    Done,
    Failed,
    /// It comes back later.
    Returned,
}

pub(crate) fn processed(operation: Operation, priority: Priority, ended: Ended, took: Duration) {
    let (operation, ended): (&'static str, &'static str) = (operation.into(), ended.into());
    OPERATIONS.record([operation.into(), priority.name().into(), ended.into()], took.as_secs_f64());
}

/// Does the work and records how long it took.
pub(crate) async fn measured<T, E>(
    clock: &dyn Clock,
    operation: Operation,
    priority: Priority,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let start = clock.now();
    let result = work.await;
    let ended = if result.is_ok() { Ended::Done } else { Ended::Failed };
    processed(operation, priority, ended, until(start, clock.now()));
    result
}

/// Counts a dead letter that was stored.
pub(crate) fn dead_letter_added(reason: &'static str) {
    DLQ_ADDED.count([reason.into()], 1);
}

/// Counts a retry of a storage, queue or flow call.
pub(crate) fn retried() {
    RETRIES.count([], 1);
}

pub(crate) fn jobs_open(seats: usize) {
    JOBS_OPEN.set([], seats as f64);
}

pub(crate) fn jobs_waiting(level: Priority, count: usize) {
    JOBS_WAITING.set([level.name().into()], count as f64);
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

pub(crate) fn accounts_drifted(drifted: usize) {
    ACCOUNTS_DRIFTED.set([], drifted as f64);
}

pub(crate) fn dlq_depth(waiting: usize) {
    DLQ_DEPTH.set([], waiting as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_prometheus_conventions() {
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
    fn the_table_lists_every_metric() {
        let source = include_str!("metrics.rs");
        for metric in ALL {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!("//! | `{}` | {} |", metric.name, labels.join(", ")).replace("|  |", "| |");
            assert!(source.contains(&row), "{row}");
        }
    }
}
