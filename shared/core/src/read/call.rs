//! One call to one model: it holds a slot and the breakers' passes, is cut off when its time is over, and
//! reports what it learned about the model.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    breaker::{Certainty, FailureKind},
    breakers::{self, Passes},
    budget::{CallBudget, CallTime, call_time},
    expenses::Granted,
    flex::FLEX_TIMEOUT,
    funds,
    observed::StartedCall,
    outcome::{CallResult, ModelCall},
    page_task::PageTask,
    reference::Reference,
    round::Admitted,
    telemetry,
};
use crate::{
    document::Confidence,
    notices::NewNotice,
    ports::{
        notifier::NoticeKind,
        vision::{Answer, PageRequest, Scope, ServiceTier, VisionError},
    },
    providers::target::Target,
    settings::Settings,
    telemetry::spans::Open,
    time::{after, until},
};

/// How often a call in flight is compared with what is known of the models by then.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause because of a failure's `Retry-After`: a server that fails knows little about its recovery.
const MAX_FAILURE_PAUSE: Duration = Duration::from_secs(30);

/// A call that is ready to be made.
pub(super) struct PlannedCall<'a> {
    pub task: &'a PageTask<'a>,
    pub settings: &'a Settings,
    pub target: Target,
    /// The page's other models.
    pub others: Vec<Target>,
    pub request: PageRequest,
    /// The page's own text, to check the answer against.
    pub reference: Option<&'a Reference>,
    pub steps_left: u32,
    /// Timeouts of this page, and openings of the model's breaker in a row.
    pub timeouts: u32,
    /// Another model is called for the page when half of the time is over.
    pub is_doubled: bool,
    pub admitted: Admitted,
    /// What it may cost, where there is a budget.
    pub granted: Option<Granted>,
    /// Cancelled when the model has replied, before what follows from that is stored.
    pub replied: CancellationToken,
}

/// A call that is over.
pub(super) struct Ended {
    pub call: ModelCall,
    /// The page's text, if the answer is good.
    pub text: Option<String>,
    /// How far a good answer agrees with the page's own text.
    pub confidence: Option<Confidence>,
    /// An answer that has little in common with the page's own text.
    pub other_text: Option<String>,
    /// The deadline cut the call off.
    pub is_out_of_time: bool,
    /// The job is over, or another worker has the page.
    pub is_stopped: bool,
    /// The failed call may not be repeated before.
    pub retry_at: Option<Timestamp>,
}

/// How the waiting for a reply ended.
enum Reply {
    Answer(Answer),
    Error(VisionError),
    TimedOut(CallTime),
    OutOfTime(Duration),
    /// Another call gave the page's text first.
    Cut,
    Stopped,
}

impl PlannedCall<'_> {
    pub fn is_flex(&self) -> bool {
        self.request.service_tier == ServiceTier::Flex
    }

    /// Makes the call. It ends soon after `cut` is cancelled.
    pub async fn run(self, cut: CancellationToken) -> Ended {
        let reader = self.task.reader;
        let started = reader.store.clock.now();
        // The time that a flex call takes says nothing about the model's others.
        let started_call = (!self.is_flex()).then(|| reader.paces.begin(&self.target));
        if started_call.is_some() {
            reader.hedges.count_call();
        }
        let target = self.target.clone();
        let metric = telemetry::Call::to(&target);
        let mut span = telemetry::call_span(&reader.store, self.task.trace, &target);
        let mut is_sent = false;
        let reply = reader.slots.while_held(&self.admitted.slot, self.reply(&cut, &mut is_sent)).await;
        self.replied.cancel();
        let latency = until(started, reader.store.clock.now());
        let mut call = ModelCall::new(&self.target, started, latency.as_millis() as u64);
        call.is_flex = self.is_flex();
        // The provider works on a call that was sent, also when its reply is not waited for, and may charge for it.
        if is_sent && !matches!(reply, Reply::Answer(_) | Reply::Error(_)) {
            call.add_estimate(funds::input_tokens(&self.request), reader.vision.price(&target));
        }
        let Admitted { slot, passes } = self.admitted;
        let in_flight = reader.slots.in_flight_estimate(&target);
        let report = Report { task: self.task, target: &target, passes };
        let mut ended = Ended {
            call: call.clone(),
            text: None,
            confidence: None,
            other_text: None,
            is_out_of_time: false,
            is_stopped: false,
            retry_at: None,
        };
        // The slot is released when its result is known: the next page must not call a model that has just
        // asked for a pause.
        match reply {
            Reply::Answer(answer) => {
                ended.confidence = call.add_answer(&answer, self.reference);
                metric.ended(&call);
                telemetry::answered(span, &call);
                report.answered(started_call, &answer).await;
                match call.result {
                    CallResult::Answered => {
                        info!(%target, latency_ms = call.latency_ms, "page read");
                        ended.text = Some(answer.text);
                    }
                    result => {
                        warn!(%target, ?result, detail = call.detail, "answer not usable");
                        ended.other_text = (result == CallResult::Invented).then_some(answer.text);
                    }
                }
            }
            Reply::Error(error) => {
                call.add_error(&error);
                warn!(%target, detail = call.detail, latency_ms = call.latency_ms, "model call failed");
                metric.ended(&call);
                telemetry::answered(span, &call);
                if let VisionError::Transient { retry_after: Some(time), .. } = &error {
                    ended.retry_at = Some(after(reader.store.clock.now(), (*time).min(MAX_FAILURE_PAUSE)));
                }
                report.failed(started_call, in_flight, &error).await;
            }
            Reply::TimedOut(CallTime { time, is_models_limit }) => {
                call.result = CallResult::Timeout;
                call.detail = format!("{target}: no answer within {:.1} s", time.as_secs_f64());
                warn!(%target, latency_ms = call.latency_ms, "model timed out");
                metric.ended(&call);
                telemetry::answered(span, &call);
                report.timed_out(started_call, in_flight, &call.detail, is_models_limit).await;
            }
            Reply::OutOfTime(time) => {
                call.result = CallResult::Timeout;
                call.detail =
                    format!("{target}: no answer within {:.1} s, at the deadline", time.as_secs_f64());
                ended.is_out_of_time = true;
                metric.cut_off(&call);
                drop(started_call);
                report.given_up(&mut span).await;
            }
            Reply::Cut => {
                call.result = CallResult::CutOff;
                call.detail = format!("{target}: cut off, another model answered first");
                metric.cut_off(&call);
                drop(started_call);
                report.given_up(&mut span).await;
            }
            Reply::Stopped => {
                call.result = CallResult::CutOff;
                call.detail = format!("{target}: cut off, the job or the worker ended");
                ended.is_stopped = true;
                metric.cut_off(&call);
                drop(started_call);
                report.given_up(&mut span).await;
            }
        }
        reader.slots.release(slot).await;
        if let Some(granted) = &self.granted {
            self.task.settle_funds(granted, call.cost_micro_usd).await;
        }
        Ended { call, ..ended }
    }

    /// Waits for the reply, for as long as the call may take. What is known of the models changes meanwhile:
    /// a call to a model that has never answered is cut off earlier once another model has. `is_sent` is set when
    /// the request goes out.
    async fn reply(&self, cut: &CancellationToken, is_sent: &mut bool) -> Reply {
        let (task, clock) = (self.task, &self.task.reader.store.clock);
        let started = clock.now();
        if cut.is_cancelled() {
            return Reply::Cut;
        }
        let mut read = std::pin::pin!(task.reader.vision.read_page(&self.target, &self.request));
        loop {
            let limit = self.time(started);
            let (time, passed) = (limit.time, until(started, clock.now()));
            if passed >= time {
                // Cut short by the job's own deadline: that says nothing about the model.
                let is_deadline = clock.now() >= task.deadline && task.deadline <= task.leave_by;
                return if is_deadline { Reply::OutOfTime(time) } else { Reply::TimedOut(limit) };
            }
            *is_sent = true;
            tokio::select! {
                biased;
                reply = &mut read => return match reply {
                    Ok(answer) => Reply::Answer(answer),
                    Err(error) => Reply::Error(error),
                },
                () = task.stop.cancelled() => return Reply::Stopped,
                () = cut.cancelled() => return Reply::Cut,
                () = clock.sleep((time - passed).min(RECHECK_INTERVAL)) => {}
            }
        }
    }

    /// How long the call may take, by what is known now.
    fn time(&self, started: Timestamp) -> CallTime {
        let paces = &self.task.reader.paces;
        let others = self.others.iter().filter_map(|other| paces.latency(other));
        let end = self.task.deadline.min(self.task.leave_by);
        if self.is_flex() {
            return CallTime { time: FLEX_TIMEOUT.min(until(started, end)), is_models_limit: false };
        }
        let budget = CallBudget {
            now: started,
            end,
            request_timeout: self.settings.request_timeout,
            steps_left: self.steps_left,
            own: paces.latency(&self.target),
            other: others.max_by_key(|latency| latency.high_ms),
            timeouts: self.timeouts,
            is_doubled: self.is_doubled,
        };
        call_time(&budget).unwrap_or(CallTime { time: Duration::ZERO, is_models_limit: false })
    }
}

/// Reports what a call says about its model.
struct Report<'a> {
    task: &'a PageTask<'a>,
    target: &'a Target,
    passes: Passes,
}

impl Report<'_> {
    /// The model responds: good for its breaker, whatever it says.
    async fn responded(&self) {
        if breakers::succeeded(&self.task.reader.breakers, self.target, &self.passes).await {
            self.wake_pages().await;
        }
    }

    async fn wake_pages(&self) {
        if let Err(fault) = self.task.reader.queue.wake().await {
            warn!(%fault, "waiting pages not woken, they come back by themselves");
        }
    }

    async fn answered(&self, call: Option<StartedCall>, answer: &Answer) {
        let Some(call) = call else { return self.responded().await };
        let reader = self.task.reader;
        let registered = reader.paces.answered(call, &answer.usage, &answer.allowance).await;
        // Pages may be waiting for that, in the workers and in the queue.
        if registered.has_grown || registered.has_resumed {
            reader.slots.wake(self.target);
            self.wake_pages().await;
        }
        self.responded().await;
    }

    async fn failed(&self, call: Option<StartedCall>, in_flight: u32, error: &VisionError) {
        let reader = self.task.reader;
        // The flex tier had no room, or the model is not in it: that says nothing about the standard one. Only a
        // bad key is the same in both.
        let is_bad_key =
            matches!(error, VisionError::Configuration { scope: Scope::Provider | Scope::Access, .. });
        if call.is_none() && !is_bad_key {
            return breakers::given_up(&reader.breakers, self.target, &self.passes).await;
        }
        match error {
            // It refused this page, but it responds.
            VisionError::Request { .. } => {
                drop(call);
                self.responded().await;
            }
            // Neither a failure of the model nor a sign that it is well.
            VisionError::Exhausted { retry_after, allowance, .. } => {
                if let Some(call) = call {
                    reader.paces.rate_limited(call, in_flight, *retry_after, allowance).await;
                }
                breakers::given_up(&reader.breakers, self.target, &self.passes).await;
            }
            VisionError::Configuration { scope, detail } => {
                drop(call);
                let (whole_provider, certainty) = match scope {
                    Scope::Provider => (true, Certainty::Certain),
                    Scope::Access => (true, Certainty::Doubtful),
                    Scope::Model => (false, Certainty::Doubtful),
                };
                // It does not repair itself: the responsible person is notified, once per opening.
                let notice = self.bad_key(whole_provider, detail);
                let kind = FailureKind::Configuration(certainty);
                self.break_on(kind, whole_provider, detail, Some(&notice)).await;
            }
            // Its `Retry-After` is this page's: the model may answer others.
            VisionError::Transient { detail, .. } => {
                drop(call);
                self.break_on(FailureKind::Transient, false, detail, None).await;
            }
            VisionError::Unknown { detail } => {
                drop(call);
                self.break_on(FailureKind::Transient, false, detail, None).await;
            }
        }
    }

    async fn timed_out(
        &self,
        call: Option<StartedCall>,
        in_flight: u32,
        detail: &str,
        is_models_limit: bool,
    ) {
        let reader = self.task.reader;
        if let Some(call) = call {
            reader.paces.timed_out(call, in_flight, is_models_limit).await;
        }
        if is_models_limit {
            self.break_on(FailureKind::Transient, false, detail, None).await;
        } else {
            // The page has little time: that says nothing about the model.
            breakers::given_up(&reader.breakers, self.target, &self.passes).await;
        }
    }

    /// `notice` is stored if this opens the breaker.
    async fn break_on(
        &self,
        kind: FailureKind,
        whole_provider: bool,
        cause: &str,
        notice: Option<&NewNotice>,
    ) {
        let breakers = &self.task.reader.breakers;
        breakers::failed(breakers, self.target, &self.passes, whole_provider, kind, cause, notice).await;
    }

    async fn given_up(&self, span: &mut Option<Open<'_>>) {
        telemetry::cut_off(span);
        let reader = self.task.reader;
        breakers::given_up(&reader.breakers, self.target, &self.passes).await;
    }

    fn bad_key(&self, whole_provider: bool, detail: &str) -> NewNotice {
        let Target { provider, .. } = self.target;
        let what = if whole_provider { provider.to_string() } else { self.target.to_string() };
        NewNotice {
            tenant: self.task.message.tenant.clone(),
            kind: NoticeKind::BadKey,
            subject: format!("Everypage can't use {what}"),
            body: format!("{detail}\nCheck the settings: everypage config check"),
            topic: what,
            about: None,
        }
    }
}
