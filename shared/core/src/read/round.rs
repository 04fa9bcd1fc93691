//! Asking one model after the other, inline and without waiting for a broken one.

use std::time::Duration;
use tokio_util::sync::CancellationToken;

use jiff::Timestamp;
use tracing::{info, warn};

use crate::{
    ids::{Priority, TenantId},
    money::MicroUsd,
    ports::{
        Fault,
        notifier::Notice,
        vision::{Answer, PageRequest, Scope, VisionError},
    },
    providers::target::{Provider, Target},
    read::{
        PageReader,
        answer::judge,
        breakers,
        budget::call_time,
        outcome::{ModelCall, CallResult},
        slots, telemetry,
    },
    tenants,
    time::within,
    trace::TraceContext,
};

/// How a page's round of questions ended.
pub enum Round {
    Answered {
        target: Target,
        text: String,
        attempts: Vec<ModelCall>,
    },
    Exhausted {
        why: String,
        attempts: Vec<ModelCall>,
    },
    /// The deadline came first.
    OutOfTime {
        attempts: Vec<ModelCall>,
    },
    /// Whoever asks has to leave, and the next call could not end before.
    NoTimeToAsk {
        attempts: Vec<ModelCall>,
    },
    /// Our own storage failed.
    Faulted {
        fault: Fault,
        attempts: Vec<ModelCall>,
    },
    /// Asked to stop in the middle; nothing is held any more.
    Stopped,
}

/// What the round works with.
pub struct Questions<'a> {
    pub steps: &'a [Target],
    pub request: &'a PageRequest,
    /// MuPDF's text, where it is good enough to measure an answer by.
    pub text_layer: Option<&'a str>,
    pub deadline: Timestamp,
    /// No call is begun from then on.
    pub begin_by: Timestamp,
    /// Whoever asks is gone by then.
    pub leave_by: Timestamp,
    /// Of one call.
    pub request_timeout: Duration,
    pub holder: &'a str,
    pub priority: Priority,
    pub tenant: &'a TenantId,
    /// Where the page's span is, if somebody traces it.
    pub trace: Option<TraceContext>,
    pub stop: &'a CancellationToken,
}

impl Questions<'_> {
    /// Which of the two came first, where it was too late for a call.
    fn too_late(&self) -> Step {
        if self.begin_by < self.deadline { Step::NoTimeToAsk } else { Step::OutOfTime }
    }
}

/// One pass over the steps.
pub async fn ask(reader: &PageReader, questions: &Questions<'_>) -> Round {
    let mut attempts: Vec<ModelCall> = Vec::new();
    let mut steps = questions.steps;
    while let Some(target) = steps.first() {
        if questions.stop.is_cancelled() {
            return Round::Stopped;
        }
        let before = attempts.last().map(|attempt| attempt.target.provider);
        let asked = match ask_one(reader, questions, steps, target, before).await {
            Ok(asked) => asked,
            Err(fault) => return Round::Faulted { fault, attempts },
        };
        match asked {
            Step::Answered(attempt, text) => {
                attempts.push(attempt);
                return Round::Answered { target: target.clone(), text, attempts };
            }
            Step::Next(attempt) => attempts.push(attempt),
            Step::Last(attempt) => {
                let why = format!("the page can't be sent: {}", attempt.detail);
                attempts.push(attempt);
                return Round::Exhausted { why, attempts };
            }
            Step::Cut(attempt) => {
                attempts.push(attempt);
                return Round::OutOfTime { attempts };
            }
            Step::Stopped => return Round::Stopped,
            Step::OutOfTime => return Round::OutOfTime { attempts },
            Step::NoTimeToAsk => return Round::NoTimeToAsk { attempts },
        }
        steps = &steps[1..];
    }
    let why = if attempts.iter().all(|attempt| attempt.result == CallResult::BreakerOpen) {
        "every model's breaker was open".to_owned()
    } else {
        "no model gave the page's text".to_owned()
    };
    Round::Exhausted { why, attempts }
}

enum Step {
    Answered(ModelCall, String),
    Next(ModelCall),
    /// The same input would fail everywhere.
    Last(ModelCall),
    OutOfTime,
    NoTimeToAsk,
    /// The deadline came in the middle of the call.
    Cut(ModelCall),
    Stopped,
}

/// Asks the first of `steps`. `before` is the provider of the step before this one, if there was one.
async fn ask_one(
    reader: &PageReader,
    questions: &Questions<'_>,
    steps: &[Target],
    target: &Target,
    before: Option<Provider>,
) -> Result<Step, Fault> {
    let skipped = |now| Step::Next(attempt(target, CallResult::BreakerOpen, String::new(), now, 0));
    if !breakers::lets_through(&reader.breakers, target, steps).await {
        return Ok(skipped(reader.store.clock.now()));
    }
    let longest = questions.request_timeout;
    let patience = questions.deadline.min(questions.begin_by);
    let (mut slot, passes) = loop {
        let Some(mut slot) =
            slots::acquire(&reader.slots, target, longest, questions.priority, patience, questions.stop)
                .await?
        else {
            return Ok(if questions.stop.is_cancelled() { Step::Stopped } else { questions.too_late() });
        };
        // The breaker may have opened while this page waited for its slot.
        let Some(passes) = breakers::admit(&reader.breakers, target, questions.holder, longest).await else {
            slots::release(&reader.slots, slot).await;
            return Ok(skipped(reader.store.clock.now()));
        };
        if slots::is_ours(&reader.slots, &mut slot, longest).await {
            break (slot, passes);
        }
        breakers::given_up(&reader.breakers, target, &passes).await;
    };
    let started = reader.store.clock.now();
    let end = questions.deadline.min(questions.leave_by);
    let time = call_time(started, end, longest).filter(|_| started < questions.begin_by);
    let Some(time) = time else {
        slots::release(&reader.slots, slot).await;
        breakers::given_up(&reader.breakers, target, &passes).await;
        return Ok(questions.too_late());
    };
    if let Some(before) = before {
        telemetry::failed_over(before, target.provider);
    }
    let call = telemetry::Call::to(target);
    let mut span = telemetry::call_span(&reader.store, questions.trace, target);
    let reading =
        within(reader.store.clock.as_ref(), time, reader.vision.read_page(target, questions.request));
    let reading = async {
        tokio::select! {
            biased;
            reply = reading => Some(reply),
            () = questions.stop.cancelled() => None,
        }
    };
    let reply = slots::while_held(&reader.slots, &mut slot, reading).await;
    let ended = reader.store.clock.now();
    let latency = ended.duration_since(started).as_millis().max(0) as u64;
    slots::release(&reader.slots, slot).await;
    let Some(reply) = reply else {
        telemetry::cut_off(&mut span);
        breakers::given_up(&reader.breakers, target, &passes).await;
        return Ok(Step::Stopped);
    };

    let error = match reply {
        Some(Ok(answer)) => {
            let (mut attempt, text) = weigh(target, answer, questions.text_layer, started, latency);
            call.ended(&attempt);
            telemetry::answered(span, &attempt);
            if attempt.result == CallResult::Answered {
                breakers::succeeded(&reader.breakers, target, &passes).await;
                info!(%target, latency_ms = latency, "page read");
                return Ok(Step::Answered(attempt, text));
            }
            // The model is there and answering: nothing for its breaker, on to the next.
            breakers::succeeded(&reader.breakers, target, &passes).await;
            attempt.detail = "the model answered, but not with the page".into();
            warn!(%target, result = ?attempt.result, "answer not usable");
            return Ok(Step::Next(attempt));
        }
        Some(Err(error)) => error,
        None => {
            // A timeout counts as a 429, unless it was only the job's own deadline that cut the
            // call short: that says nothing about the model.
            let detail = format!("no answer within {:.1} s", time.as_secs_f64());
            warn!(%target, latency_ms = latency, "model timed out");
            let timeout = attempt(target, CallResult::Timeout, detail, started, latency);
            if time < longest && questions.deadline <= questions.leave_by {
                telemetry::cut_off(&mut span);
                breakers::given_up(&reader.breakers, target, &passes).await;
                return Ok(Step::Cut(timeout));
            }
            call.ended(&timeout);
            telemetry::answered(span, &timeout);
            breakers::failed(&reader.breakers, target, &passes, false, &timeout.detail, None).await;
            return Ok(Step::Next(timeout));
        }
    };
    let detail = error.to_string();
    warn!(%target, detail, latency_ms = latency, "model call failed");
    let (result, counts, whole_provider, rest) = match &error {
        VisionError::Transient { .. } => (CallResult::Transient, true, false, None),
        VisionError::Exhausted { retry_after, .. } => (CallResult::Exhausted, true, false, *retry_after),
        VisionError::Configuration { scope, .. } => {
            (CallResult::Configuration, true, *scope == Scope::Provider, None)
        }
        VisionError::Request { .. } => (CallResult::Request, false, false, None),
        VisionError::Unknown { .. } => (CallResult::Unknown, true, false, None),
    };
    let attempt = attempt(target, result, detail, started, latency);
    call.ended(&attempt);
    telemetry::answered(span, &attempt);
    if !counts {
        // It refused this page, but it is there and answers.
        breakers::succeeded(&reader.breakers, target, &passes).await;
    } else if breakers::failed(&reader.breakers, target, &passes, whole_provider, &attempt.detail, rest).await
        && result == CallResult::Configuration
    {
        alert(reader, questions.tenant, target, &attempt.detail).await;
    }
    Ok(if result == CallResult::Request { Step::Last(attempt) } else { Step::Next(attempt) })
}

/// A bad key or an unknown model does not mend itself: somebody is told, once per opening.
async fn alert(reader: &PageReader, tenant: &TenantId, target: &Target, detail: &str) {
    let responsible = tenants::settings(&reader.tenants, tenant)
        .await
        .ok()
        .and_then(|settings| settings.responsible.clone());
    let notice = Notice {
        tenant: tenant.clone(),
        responsible,
        subject: format!("Everypage can't use {target}"),
        body: format!("{detail}\nCheck the settings: everypage config check"),
    };
    if let Err(fault) = reader.notifier.notify(&notice).await {
        warn!(%fault, %target, "notice not sent");
    }
}

fn weigh(
    target: &Target,
    answer: Answer,
    layer: Option<&str>,
    started: Timestamp,
    latency: u64,
) -> (ModelCall, String) {
    let result = judge(&answer.text, answer.finish, layer).err().unwrap_or(CallResult::Answered);
    let mut attempt = attempt(target, result, String::new(), started, latency);
    attempt.input_tokens = answer.usage.input_tokens;
    attempt.output_tokens = answer.usage.output_tokens;
    attempt.cost_micro_usd = MicroUsd::from_usd(answer.usage.cost_usd);
    (attempt, answer.text)
}

fn attempt(
    target: &Target,
    result: CallResult,
    detail: String,
    started_at: Timestamp,
    latency_ms: u64,
) -> ModelCall {
    ModelCall {
        target: target.clone(),
        result,
        detail,
        started_at,
        latency_ms,
        input_tokens: 0,
        output_tokens: 0,
        cost_micro_usd: MicroUsd::default(),
    }
}
