//! Metrics and spans of model calls and breakers.

use ::metrics::SharedString;

use super::{
    breaker::BreakerEvent,
    breakers::Guarded,
    outcome::{CallResult, ModelCall},
};
use crate::{
    document::Confidence,
    events::Store,
    job::message::PageMessage,
    money::MicroUsd,
    providers::target::{Provider, Target},
    telemetry::{metrics::*, spans::Open},
    trace::{SpanKind, TraceContext},
};

fn of(target: &Target) -> [SharedString; 2] {
    [target.provider.name().into(), target.model.clone().into()]
}

fn of_and(target: &Target, third: &'static str) -> [SharedString; 3] {
    let [provider, model] = of(target);
    [provider, model, third.into()]
}

/// A model call in progress. One that is dropped before it ended is counted as cut off.
pub(crate) struct Call<'a>(Option<&'a Target>);

impl<'a> Call<'a> {
    pub(crate) fn to(target: &'a Target) -> Self {
        Self(Some(target))
    }

    /// Counts a call that ended by itself or by its own timeout.
    pub(crate) fn ended(mut self, call: &ModelCall) {
        let Some(target) = self.0.take() else { return };
        PROVIDER_REQUESTS.count(of_and(target, call.result.name()), 1);
        PROVIDER_LATENCY.record(of(target), call.latency_ms as f64 / 1000.0);
        if call.result == CallResult::Timeout {
            TIMEOUTS.count(["request".into()], 1);
        }
        add_usage(target, call);
    }

    /// Counts a call that was cut off, with what it may have cost.
    pub(crate) fn cut_off(self, call: &ModelCall) {
        add_usage(&call.target, call);
    }
}

fn add_usage(target: &Target, call: &ModelCall) {
    for (direction, tokens) in [("input", call.input_tokens), ("output", call.output_tokens)] {
        if tokens > 0 {
            PROVIDER_TOKENS.count(of_and(target, direction), tokens);
        }
    }
    if call.cost_micro_usd > MicroUsd::default() {
        PROVIDER_COST.add(of(target), call.cost_micro_usd.usd());
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.0 {
            PROVIDER_REQUESTS.count(of_and(target, "cut_off"), 1);
        }
    }
}

pub(crate) fn inflight_limit(target: &Target, limit: u32) {
    INFLIGHT_LIMIT.set(of(target), f64::from(limit));
}

/// Counts a call that was doubled, and whether the second call gave the page's text.
pub(crate) fn hedged(has_won: bool) {
    HEDGES.count([if has_won { "won" } else { "lost" }.into()], 1);
}

pub(crate) fn rounds(rounds: u32) {
    PAGE_ROUNDS.record([], f64::from(rounds));
}

/// Records how far the text that a model read agrees with the page's own.
pub(crate) fn confidence(confidence: Confidence) {
    PAGE_CONFIDENCE.record([], f64::from(confidence.get()));
}

pub(crate) fn failed_over(from: Provider, to: Provider) {
    FAILOVERS.count([from.name().into(), to.name().into()], 1);
}

/// Counts a breaker's stored event.
pub(crate) fn breaker_moved(guarded: &Guarded, event: &BreakerEvent) {
    let action = match event {
        BreakerEvent::Opened { .. } => "opened",
        BreakerEvent::HalfOpen { .. } => "half_open",
        BreakerEvent::Closed { .. } => "closed",
    };
    breaker_event(guarded, action);
}

/// Counts a breaker that was ignored because its store could not be reached.
pub(crate) fn breaker_ignored(guarded: &Guarded) {
    breaker_event(guarded, "fail_open");
}

fn breaker_event(guarded: &Guarded, action: &'static str) {
    let (provider, model) = match guarded {
        Guarded::Model(target) => (target.provider, target.model.clone().into()),
        Guarded::Provider(provider) => (*provider, "*".into()),
    };
    BREAKER_EVENTS.count([provider.name().into(), model, action.into()], 1);
}

/// One delivery of a page's message, in the trace that the message names.
pub(crate) fn page_span<'a>(store: &'a Store, message: &PageMessage, receive_count: u32) -> Option<Open<'a>> {
    let parent = message.traceparent.parse().ok()?;
    let open = Open::new(&store.tracer, parent, "page", SpanKind::Consumer)
        .with("everypage.job", message.job_id.as_str())
        .with("everypage.page", message.page_id.get())
        .with("everypage.redrive_count", message.redrive_count)
        .with("everypage.receive_count", receive_count);
    Some(open)
}

/// The span of one model call, with the attribute names of OpenTelemetry's conventions.
pub(crate) fn call_span<'a>(
    store: &'a Store,
    parent: Option<TraceContext>,
    target: &Target,
) -> Option<Open<'a>> {
    let open = Open::new(&store.tracer, parent?, "call", SpanKind::Client)
        .with("gen_ai.operation.name", "chat")
        .with("gen_ai.provider.name", target.provider.name())
        .with("gen_ai.request.model", target.model.as_str());
    Some(open)
}

/// Adds the result of a model call to its span.
pub(crate) fn answered(span: Option<Open<'_>>, call: &ModelCall) {
    let Some(mut span) = span else { return };
    span.set_attribute("gen_ai.usage.input_tokens", call.input_tokens);
    span.set_attribute("gen_ai.usage.output_tokens", call.output_tokens);
    if call.result != CallResult::Answered {
        span.failed(call.result.name());
    }
}

/// Marks the span of a call that the job's or the worker's end cut off.
pub(crate) fn cut_off(call: &mut Option<Open<'_>>) {
    if let Some(call) = call {
        call.failed("cut_off");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn label_values_are_the_names_that_are_stored() {
        let stored = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for source in Source::ALL {
            assert_eq!(stored(serde_json::json!(source)), source.name());
        }
        for result in CallResult::ALL {
            assert_eq!(stored(serde_json::json!(result)), result.name());
        }
    }
}
