//! Metrics and spans of jobs.

use jiff::Timestamp;

use super::{Job, JobEvent, PageRange, ResultRef};
use crate::{
    events::Store,
    source::Source,
    telemetry::{metrics::*, spans::Open},
    time::until,
    trace::{Span, SpanKind},
};

/// Counts a transition that this process stored. Exactly one process stores each transition.
pub(crate) fn count_transition(before: &Job, after: &Job, events: &[JobEvent]) {
    for event in events {
        match event {
            JobEvent::DeadlineReached {} => TIMEOUTS.count(["job".into()], 1),
            JobEvent::Executed(result) | JobEvent::Cancelled { result: Some(result) } => {
                count_published_pages(result)
            }
            JobEvent::Healed { result, .. } => {
                let earlier = before.result.as_ref().map_or(0, |result| result.metadata.final_ai_pages);
                pages(Source::AI, result.metadata.final_ai_pages.saturating_sub(earlier));
            }
            _ => {}
        }
    }
    if after.state.is_terminal() && !before.state.is_terminal() {
        let start = after.run_started_at();
        let end = after.finished_at.unwrap_or(start);
        JOB_DURATION.record([after.status().to_string().into()], until(start, end).as_secs_f64());
    }
}

fn count_published_pages(result: &ResultRef) {
    for (source, count) in &result.metadata.pages_by_source {
        pages(*source, *count);
    }
}

fn pages(source: Source, count: u32) {
    if count > 0 {
        PAGES.count([source.name().into()], count.into());
    }
}

fn of_job<'a>(store: &'a Store, job: &Job, name: &'static str, kind: SpanKind) -> Open<'a> {
    Open::new(&store.tracer, job.trace(), name, kind).with("everypage.job", job.id.as_str())
}

/// Records the span of the whole job if this transition finished it.
pub(crate) fn record_job_span(store: &Store, before: &Job, after: &Job) {
    let context = after.trace();
    let Some(end) = after.finished_at.filter(|_| before.finished_at.is_none()) else { return };
    if !store.tracer.traces.is_enabled() || !context.sampled {
        return;
    }
    let mut attributes = vec![
        ("everypage.job", after.id.as_str().into()),
        ("everypage.tenant", after.received.tenant.as_str().into()),
        ("everypage.status", after.status().to_string().into()),
    ];
    if let Some(result) = &after.result {
        attributes.push(("everypage.pages", result.metadata.total_pages.into()));
        attributes.push(("everypage.pages_by_ai", result.metadata.final_ai_pages.into()));
    }
    store.tracer.traces.record(Span {
        context,
        parent: after.received.traceparent.map(|caller| caller.span),
        name: "job",
        kind: SpanKind::Job,
        start: after.run_started_at(),
        end,
        attributes,
        error: after.failure.as_ref().map(|failure| failure.code.clone()),
    });
}

/// Records the span of accepting a job, from the arrival of the request at `start`.
pub(crate) fn submitted(store: &Store, job: &Job, start: Timestamp) {
    let mut open = of_job(store, job, "submit", SpanKind::Internal)
        .with("everypage.request_source", <&str>::from(job.received.source))
        .with("everypage.bytes", job.received.document.bytes);
    open.started_at(start);
}

pub(crate) fn inspect<'a>(store: &'a Store, job: &Job) -> Open<'a> {
    of_job(store, job, "inspect", SpanKind::Internal)
}

pub(crate) fn read_text<'a>(store: &'a Store, job: &Job, range: &PageRange) -> Open<'a> {
    of_job(store, job, "read_text", SpanKind::Internal).with("everypage.pages", range.pages.to_string())
}

pub(crate) fn render<'a>(store: &'a Store, job: &Job, range: &PageRange) -> Open<'a> {
    of_job(store, job, "render", SpanKind::Internal).with("everypage.pages", range.pages.to_string())
}

pub(crate) fn plan<'a>(store: &'a Store, job: &Job) -> Open<'a> {
    of_job(store, job, "plan", SpanKind::Internal)
}

pub(crate) fn finalize<'a>(store: &'a Store, job: &Job) -> Open<'a> {
    of_job(store, job, "finalize", SpanKind::Internal)
}
