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

/// `events` of a job were stored, by this process and nobody else.
pub(crate) fn count_transition(before: &Job, after: &Job, events: &[JobEvent]) {
    for event in events {
        match event {
            JobEvent::DeadlineReached {} => TIMEOUTS.count(["job".into()], 1),
            JobEvent::Executed(result) | JobEvent::Cancelled { result: Some(result) } => published(result),
            JobEvent::Healed { result, .. } => {
                let earlier = before.result.as_ref().map_or(0, |result| result.metadata.final_ai_pages);
                pages(Source::AI, result.metadata.final_ai_pages.saturating_sub(earlier));
            }
            _ => {}
        }
    }
    if after.state.is_terminal() && !before.state.is_terminal() {
        let began = after.began();
        let ended = after.finished_at.unwrap_or(began);
        JOB_DURATION.record([after.status().to_string().into()], until(began, ended).as_secs_f64());
    }
}

fn published(result: &ResultRef) {
    let metadata = &result.metadata;
    let late = metadata.final_timeout_fallback_pages;
    let fallback = metadata.mupdf_fallback_count.saturating_sub(late);
    pages(Source::AI, metadata.final_ai_pages);
    pages(Source::MUPDF, metadata.final_mupdf_pages.saturating_sub(fallback));
    pages(Source::MUPDF_FALLBACK, fallback);
    pages(Source::MUPDF_TIMEOUT_FALLBACK, late);
}

fn pages(source: Source, count: u32) {
    if count > 0 {
        PAGES.count([source.name().into()], count.into());
    }
}

fn of_job<'a>(store: &'a Store, job: &Job, name: &'static str, kind: SpanKind) -> Open<'a> {
    Open::new(&store.tracer, job.trace(), name, kind).with("everypage.job", job.id.as_str())
}

/// The span of the whole job, when `after` is its end and `before` was not.
pub(crate) fn record_job_span(store: &Store, before: &Job, after: &Job) {
    let context = after.trace();
    let Some(end) = after.finished_at.filter(|_| before.finished_at.is_none()) else { return };
    if !store.tracer.traces.is_on() || !context.sampled {
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
        kind: SpanKind::Internal,
        start: after.began(),
        end,
        attributes,
        error: after.failure.as_ref().map(|failure| failure.code.clone()),
    });
}

/// A job was accepted; its request came at `start`.
pub(crate) fn submitted(store: &Store, job: &Job, start: Timestamp) {
    let mut open = of_job(store, job, "submit", SpanKind::Internal)
        .with("everypage.door", job.received.source.as_str())
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
