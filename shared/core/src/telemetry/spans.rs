//! What is traced: every span defined once, and the only places that name one.
//!
//! ```text
//! job ─┬─ submit
//!      ├─ inspect, read_text, render      per range of pages
//!      ├─ plan
//!      ├─ page ──── call, call, …         per delivery of its message, per question to a model
//!      ├─ finalize
//!      └─ webhook                         per attempt
//! ```
//!
//! All of a job's spans are in one trace: that of whoever submitted it, where a `traceparent` came
//! along, or else one of its own. The job's own span is told at its end, by whoever stores that end;
//! its id is known from the start, so that the others can name it as their parent. Attributes are
//! names and figures: no document's text, prompt, password or key is ever one.

use jiff::Timestamp;

use crate::{
    app::App,
    job::{Job, PageRange, StepError, message::PageMessage},
    notify::webhooks::Delivery,
    providers::target::Target,
    read::outcome::{Attempt, AttemptResult},
    trace::{Span, SpanKind, TraceContext, Value},
};

/// A span that ends when it is dropped, however the work ends.
#[must_use = "a span ends when it is dropped"]
pub struct Open<'a> {
    app: &'a App,
    context: TraceContext,
    span: Option<Span>,
}

impl<'a> Open<'a> {
    fn new(app: &'a App, parent: TraceContext, name: &'static str, kind: SpanKind) -> Self {
        if !app.traces.is_on() || !parent.sampled {
            return Self { app, context: parent, span: None };
        }
        let context = TraceContext { span: app.ids.roll(u64::MAX - 1) + 1, ..parent };
        let now = app.clock.now();
        let span = Span {
            context,
            parent: Some(parent.span),
            name,
            kind,
            start: now,
            end: now,
            attributes: vec![],
            error: None,
        };
        Self { app, context, span: Some(span) }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.note(name, value);
        self
    }

    fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// Where this span is: what it causes has this for a parent.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// Does the work of a step, and notes why it failed if it did.
    pub async fn around<T>(
        mut self,
        work: impl Future<Output = Result<T, StepError>>,
    ) -> Result<T, StepError> {
        let done = work.await;
        if let Err(error) = &done {
            self.failed(error.code());
        }
        done
    }

    /// It did not do what it was to do; `why` is a name that stays the same.
    pub fn failed(&mut self, why: &str) {
        if let Some(span) = &mut self.span {
            span.error = Some(why.to_owned());
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            // A clock that was set back must not make time run backwards.
            span.end = self.app.clock.now().max(span.start);
            self.app.traces.record(span);
        }
    }
}

fn of_job<'a>(app: &'a App, job: &Job, name: &'static str, kind: SpanKind) -> Open<'a> {
    Open::new(app, job.trace(), name, kind).with("everypage.job", job.id.as_str())
}

/// A job was accepted; its request came at `start`.
pub fn submitted(app: &App, job: &Job, start: Timestamp) {
    let mut open = of_job(app, job, "submit", SpanKind::Internal)
        .with("everypage.door", job.received.source.as_str())
        .with("everypage.bytes", job.received.document.bytes);
    if let Some(span) = &mut open.span {
        span.start = start;
    }
}

pub fn inspect<'a>(app: &'a App, job: &Job) -> Open<'a> {
    of_job(app, job, "inspect", SpanKind::Internal)
}

pub fn read_text<'a>(app: &'a App, job: &Job, range: &PageRange) -> Open<'a> {
    of_job(app, job, "read_text", SpanKind::Internal).with("everypage.pages", range.pages.to_string())
}

pub fn render<'a>(app: &'a App, job: &Job, range: &PageRange) -> Open<'a> {
    of_job(app, job, "render", SpanKind::Internal).with("everypage.pages", range.pages.to_string())
}

pub fn plan<'a>(app: &'a App, job: &Job) -> Open<'a> {
    of_job(app, job, "plan", SpanKind::Internal)
}

pub fn finalize<'a>(app: &'a App, job: &Job) -> Open<'a> {
    of_job(app, job, "finalize", SpanKind::Internal)
}

/// One sending of a tenant's webhook, under the job's span.
pub fn webhook<'a>(app: &'a App, job: TraceContext, delivery: &Delivery) -> Open<'a> {
    Open::new(app, job, "webhook", SpanKind::Client)
        .with("everypage.job", delivery.job.as_str())
        .with("everypage.webhook", delivery.id.as_str())
        .with("everypage.attempt", delivery.attempts)
}

/// One delivery of a page's message, in the trace that the message names.
pub fn page<'a>(app: &'a App, message: &PageMessage, receive_count: u32) -> Option<Open<'a>> {
    let parent = message.traceparent.parse().ok()?;
    let open = Open::new(app, parent, "page", SpanKind::Consumer)
        .with("everypage.job", message.job_id.as_str())
        .with("everypage.page", message.page_id.get())
        .with("everypage.sending", message.attempt)
        .with("everypage.receive_count", receive_count);
    Some(open)
}

/// A question to a model; the names are those of OpenTelemetry's conventions for such calls.
pub fn call<'a>(app: &'a App, parent: Option<TraceContext>, target: &Target) -> Option<Open<'a>> {
    let open = Open::new(app, parent?, "call", SpanKind::Client)
        .with("gen_ai.operation.name", "chat")
        .with("gen_ai.provider.name", target.provider.name())
        .with("gen_ai.request.model", target.model.as_str());
    Some(open)
}

/// How a question was answered.
pub fn answered(call: Option<Open<'_>>, attempt: &Attempt) {
    let Some(mut call) = call else { return };
    call.note("gen_ai.usage.input_tokens", attempt.input_tokens);
    call.note("gen_ai.usage.output_tokens", attempt.output_tokens);
    if attempt.result != AttemptResult::Answered {
        call.failed(attempt.result.name());
    }
}

/// The job's end, or the worker's, came before the answer.
pub fn cut_off(call: &mut Option<Open<'_>>) {
    if let Some(call) = call {
        call.failed("cut_off");
    }
}

/// The span of the whole job, when `after` is its end and `before` was not.
pub fn job_moved(app: &App, before: &Job, after: &Job) {
    let context = after.trace();
    let Some(end) = after.finished_at.filter(|_| before.finished_at.is_none()) else { return };
    if !app.traces.is_on() || !context.sampled {
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
    app.traces.record(Span {
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
