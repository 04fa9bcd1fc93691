//! The trace of a job, from its request to its webhook.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use everypage_core::{
    dead_letters,
    event::Aggregate,
    events::trail,
    ids::TenantId,
    job::Job,
    notify::{deliver as usecase, relay, webhooks},
    recover::redrive::redrive,
    secret::Secret,
    trace::{Span, TraceContext, Value},
};
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, Process};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn text<'a>(span: &'a Span, attribute: &str) -> Option<&'a str> {
    span.attributes.iter().find(|(name, _)| *name == attribute).and_then(|(_, value)| match value {
        Value::Text(text) => Some(text.as_str()),
        Value::Number(_) => None,
    })
}

async fn done(process: &Process, document: &FakeDocument) -> Job {
    let id = process.submit(document).await.unwrap().job.id;
    process.finish(&id).await
}

#[tokio::test(start_paused = true)]
async fn every_step_has_a_span_in_the_jobs_trace() {
    let harness = Harness::new(&[]);
    harness.vision.set_behaviour(|target, page| {
        if target.model == "gpt-5.4" { Reply::down() } else { Reply::Answer(read_by(target, page)) }
    });
    let process = harness.start("a");
    let job = done(&process, &FakeDocument::graphics(3)).await;
    let (spans, trace) = (harness.traces.spans(), job.trace());
    assert!(spans.iter().all(|span| span.context.trace == trace.trace && span.start <= span.end));
    let whole = named(&spans, "job");
    assert_eq!((whole.len(), whole[0].context, whole[0].parent), (1, trace, None));
    assert_eq!(text(whole[0], "everypage.status"), Some("success"));
    for (name, count) in [("submit", 1), ("inspect", 1), ("read_text", 1), ("render", 1), ("plan", 1)] {
        assert_eq!(named(&spans, name).len(), count, "{name}");
    }
    let pages = named(&spans, "page");
    assert_eq!((pages.len(), named(&spans, "finalize").len()), (3, 1));
    for call in named(&spans, "call") {
        assert!(pages.iter().any(|page| Some(page.context.span) == call.parent), "{call:?}");
    }
    let others = spans.iter().filter(|span| !["call", "job"].contains(&span.name));
    assert!(others.into_iter().all(|span| span.parent == Some(trace.span)), "children of the job");
    // Events have the same trace and span.
    for event in trail::read(&process.app.store, &Aggregate::Job(job.id.clone())).await.unwrap() {
        assert_eq!((event.metadata.trace_id, event.metadata.span_id), (trace.trace_id(), trace.span_id()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_trace_id_starts_with_the_time_like_x_ray_ids() {
    let harness = Harness::new(&[]);
    let job = done(&harness.start("a"), &FakeDocument::graphics(1)).await;
    let seconds = u32::from_str_radix(&job.trace().trace_id()[..8], 16).unwrap();
    assert_eq!(i64::from(seconds), job.received_at.as_second());
}

#[tokio::test(start_paused = true)]
async fn a_job_joins_its_callers_trace_and_an_unsampled_trace_records_nothing() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let caller: TraceContext = CALLER.parse().unwrap();
    let id = process.submit_traced(&FakeDocument::graphics(1), caller).await.unwrap().job.id;
    process.finish(&id).await;
    let spans = harness.traces.spans();
    assert!(!spans.is_empty() && spans.iter().all(|span| span.context.trace == caller.trace));
    assert_eq!(named(&spans, "job")[0].parent, Some(caller.span));

    let unrecorded = TraceContext { sampled: false, ..caller };
    let id = process.submit_traced(&FakeDocument::graphics(2), unrecorded).await.unwrap().job.id;
    process.finish(&id).await;
    assert_eq!(harness.traces.spans().len(), spans.len());
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_has_an_error_in_its_span_and_its_redrive_a_new_span() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    let locked = FakeDocument { password: Some("x".into()), ..FakeDocument::graphics(1) };
    let job = done(&process, &locked).await;
    let spans = harness.traces.spans();
    for name in ["job", "inspect"] {
        assert_eq!(named(&spans, name)[0].error.as_deref(), Some("password_needed"), "{name}");
    }

    let dead_letters = dead_letters::waiting(&process.app.store, 10).await.unwrap();
    redrive(&process.app.recovery, &dead_letters[0].value.id, "ann", Some(Secret::new("x"))).await.unwrap();
    let trail = trail::read(&process.app.store, &Aggregate::DeadLetter(dead_letters[0].value.id.clone()))
        .await
        .unwrap();
    for event in &trail {
        assert_eq!(event.metadata.trace_id, job.trace().trace_id(), "{}", event.kind);
    }
    assert_eq!(trail.len(), 2);
    let again = process.finish(&job.id).await;
    let spans = harness.traces.spans();
    let jobs = named(&spans, "job");
    assert_eq!((jobs.len(), jobs[1].error.as_deref()), (2, None));
    assert_eq!(jobs[0].context.trace, jobs[1].context.trace);
    assert_ne!(jobs[0].context.span, jobs[1].context.span);
    assert_eq!(jobs[1].context, again.trace());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_carries_the_jobs_trace() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    webhooks::set(
        &process.app.store,
        process.app.vault.as_ref(),
        &TenantId::new("local"),
        "https://example.com/hook",
        "test",
    )
    .await
    .unwrap();
    harness.hooks.fail_next(1);
    let job = done(&process, &FakeDocument::graphics(1)).await;
    relay::relay(&process.app.publisher, &process.app.store.node).await.unwrap();
    usecase::run_for(&process.app.publisher, Duration::from_secs(60)).await.unwrap();
    let spans = harness.traces.spans();
    let sent = named(&spans, "webhook");
    let errors: Vec<_> = sent.iter().map(|span| span.error.as_deref()).collect();
    assert_eq!(errors, [Some("failed"), None]);
    for (span, call) in sent.iter().zip(harness.hooks.calls()) {
        assert_eq!(span.parent, Some(job.trace().span));
        let header = call.headers.iter().find(|(name, _)| *name == "traceparent").unwrap();
        assert_eq!(header.1, span.context.to_string());
    }
}
