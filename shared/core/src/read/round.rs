//! One pass over the models of a page, in order, until one gives its text.
//!
//! A model whose breaker is open is skipped. One that is only busy or paused is waited for while it can
//! read all pages in time; otherwise the next one takes the page. Where the breakers of all models are open,
//! the page may be the one that probes. A round that ends without the text is followed by another, as long
//! as that could help.

use std::{mem::take, ops::ControlFlow, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    breaker::Urgency,
    breakers::{self, Passes},
    budget::MIN_CALL_TIME,
    expenses::Budgets,
    outcome::{CallResult, ModelCall, PageOutcome, Settlement},
    page_task::PageTask,
    patience::{self, GiveUp, NextRound, Queue, StepState},
    reference::Reference,
    slots::Slot,
    waiting::{WaitReason, Waiting},
};
use crate::{
    document::Confidence,
    job::StepError,
    plan::context,
    ports::vision::{PageRequest, RequestImage},
    providers::target::Target,
    settings::Settings,
    time::{after, until},
};

/// How long a page waits for a slot inside the worker; then it makes room for other pages.
const SLOT_WAIT: Duration = Duration::from_secs(5);
/// This many pages may wait for a slot of a model inside the worker, however few calls it takes.
const MIN_WAITERS: u32 = 2;
/// Waves of rate limits without an answer after which other pages do not wait for a model.
const MAX_REFUSALS: u32 = 1;
/// A page that can't be called again waits for the deadline if that is as close as this, and is settled by it.
const NEAR_DEADLINE: Duration = Duration::from_secs(15);
/// The temperature of a call to a model that repeated itself.
const OTHER_TEMPERATURE: f32 = 0.4;

pub(super) struct Round<'a> {
    pub task: &'a PageTask<'a>,
    pub settings: Arc<Settings>,
    /// The models that may be called, in order.
    pub steps: Vec<Target>,
    /// Loaded for the first call, so that a page that waits costs no download.
    pub request: Option<PageRequest>,
    /// Rendered when a model has missed words; inner `None` where that is not possible.
    pub sharper_image: Option<Option<RequestImage>>,
    /// The page's own text, to check answers against.
    pub reference: Option<Reference>,
    /// Answers of this round that have little in common with it.
    pub other_texts: Vec<(Target, String)>,
    /// No call starts from then on.
    pub start_by: Timestamp,
    pub started_at: Timestamp,
    /// Calls of this round.
    pub calls: Vec<ModelCall>,
    /// What its calls are paid from.
    pub budgets: Budgets,
    /// Models that are too expensive for what is left, with the reason.
    pub unaffordable: Vec<(Target, String)>,
    /// When failed calls of this round may be repeated, as the models asked.
    pub retry_at: Vec<(Target, Timestamp)>,
}

/// A model that may be called now.
pub(super) struct Admitted {
    pub slot: Slot,
    pub passes: Passes,
}

impl Round<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.task.reader.store.clock.now()
    }

    pub async fn run(mut self) -> Result<PageOutcome, StepError> {
        // Only where earlier rounds have shown that several models may be looked at.
        if self.task.rounds > 0 {
            self.task.reader.paces.refresh(&self.steps).await;
        }
        for index in 0..self.steps.len() {
            if let Some(outcome) = self.call_step(index, Urgency::Normal).await? {
                return Ok(outcome);
            }
        }
        if self.has_no_model().await {
            for index in 0..self.steps.len() {
                if let Some(outcome) = self.call_step(index, Urgency::NoOtherModel).await? {
                    return Ok(outcome);
                }
            }
        }
        Ok(self.next_round().await)
    }

    /// Calls one model, if it may be called, and once more where other settings may help. Returns the outcome
    /// where that ends the round.
    async fn call_step(&mut self, index: usize, urgency: Urgency) -> Result<Option<PageOutcome>, StepError> {
        let target = self.steps[index].clone();
        for _ in 0..2 {
            if self.task.stop.is_cancelled() {
                return Ok(Some(PageOutcome::Stopped(take(&mut self.calls))));
            }
            if self.count(&target, CallResult::Incomplete) > 0 && self.sharper_image.is_none() {
                self.sharper_image = Some(self.task.sharper_image().await);
            }
            if self.is_refused(&target) || self.has_failed(&target) {
                break;
            }
            match self.admit(&target, urgency).await {
                ControlFlow::Break(outcome) => return Ok(Some(outcome)),
                ControlFlow::Continue(None) => break,
                ControlFlow::Continue(Some(admitted)) => {
                    if self.request.is_none() {
                        match self.task.request(&self.settings).await {
                            Ok(request) => self.request = Some(request),
                            Err(error) => {
                                self.give_back(&target, admitted).await;
                                return Err(error);
                            }
                        }
                    }
                    if let Some(outcome) = self.read_with(index, admitted).await {
                        return Ok(Some(outcome));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Whether no model that could read this page can be called, and some were skipped because their breakers are
    /// open: those may be probed.
    async fn has_no_model(&self) -> bool {
        let mut has_open = false;
        for target in self.steps.iter().filter(|target| !self.is_refused(target)) {
            let mut results = self.calls.iter().filter(|call| call.target == *target).map(|call| call.result);
            if results.clone().any(|result| result == CallResult::BreakerOpen) {
                has_open = true;
            } else if !results.all(|result| result == CallResult::Exhausted)
                || !self.is_exhausted(target).await
            {
                return false;
            }
        }
        has_open
    }

    async fn is_exhausted(&self, target: &Target) -> bool {
        self.task.reader.paces.is_exhausted(target, self.task.deadline).await
    }

    /// Every call for this page so far.
    pub(super) fn all_calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.task.earlier_calls.iter().chain(&self.calls)
    }

    pub(super) fn count(&self, target: &Target, result: CallResult) -> u32 {
        self.all_calls().filter(|call| call.target == *target && call.result == result).count() as u32
    }

    /// Whether the model can't or won't read this page, also with other settings.
    pub(super) fn is_refused(&self, target: &Target) -> bool {
        use CallResult::*;
        // What the flex tier does not take, the standard one may.
        let is_final = |call: &ModelCall| match call.result {
            Request => !call.is_flex,
            result => matches!(result, Refusal | Empty | Invented),
        };
        let again = [Truncated, Repeating, Incomplete].map(|result| self.count(target, result));
        let is_no_sharper = self.sharper_image.as_ref().is_some_and(Option::is_none);
        self.unaffordable.iter().any(|(one, _)| one == target)
            || self.all_calls().any(|call| call.target == *target && is_final(call))
            || again.iter().sum::<u32>() > 1
            || again[2] > 0 && is_no_sharper
    }

    /// Whether a call of this round to the model failed.
    pub(super) fn has_failed(&self, target: &Target) -> bool {
        use CallResult::*;
        let is_failure = |call: &ModelCall| {
            matches!(call.result, Timeout | Transient | Exhausted | Configuration | Unknown | CutOff)
        };
        self.calls.iter().any(|call| call.target == *target && is_failure(call))
    }

    /// The request for a model, with other settings where its earlier answers call for them.
    pub(super) fn request_for(&self, target: &Target) -> Option<PageRequest> {
        let mut request = self.request.clone()?;
        request.service_tier = self.service_tier(target);
        // Where tokens are scarce, more pages are worth more than text that the image has, too.
        if request.image.is_some() && self.task.reader.paces.is_limited_by_tokens(target) {
            request.context_text = context::without_text(&request.context_text);
        }
        if self.count(target, CallResult::Truncated) > 0 {
            request.max_output_tokens = request.max_output_tokens.saturating_mul(2);
        }
        if self.count(target, CallResult::Repeating) > 0 {
            request.temperature = Some(OTHER_TEMPERATURE);
        }
        if self.count(target, CallResult::Incomplete) > 0 {
            request.image = self.sharper_image.clone().flatten().or(request.image);
        }
        Some(request)
    }

    /// Takes a slot of the model and the breakers' passes; `None` when the next model is to be called.
    async fn admit(
        &mut self,
        target: &Target,
        urgency: Urgency,
    ) -> ControlFlow<PageOutcome, Option<Admitted>> {
        let reader = self.task.reader;
        if !breakers::lets_through(&reader.breakers, target, &self.steps, urgency).await {
            return self.skip(target);
        }
        // Calls to it hang: more of them would, too.
        if reader.paces.is_stalled(target) && self.has_free_model(|other| other != target).await {
            return ControlFlow::Continue(None);
        }
        if let Some(until) = reader.paces.paused(target).await {
            return match self.is_worth_waiting(target, until).await {
                true => ControlFlow::Break(self.wait(until, WaitReason::RateLimited, target)),
                false => ControlFlow::Continue(None),
            };
        }
        let slot = match reader.slots.try_take(target).await {
            Ok(Some(slot)) => slot,
            Ok(None) if !self.is_worth_waiting(target, self.now()).await => {
                return ControlFlow::Continue(None);
            }
            Ok(None) => {
                if let Some(turn_at) = self.turn_elsewhere(target).await {
                    return ControlFlow::Break(self.wait(turn_at, self.turn_reason(target).await, target));
                }
                let patient_until = after(self.now(), SLOT_WAIT).min(self.start_by).min(self.task.deadline);
                let priority = self.task.message.priority;
                match reader.slots.take(target, priority, patient_until, self.task.stop).await {
                    Ok(Some(slot)) => slot,
                    Ok(None) if self.task.stop.is_cancelled() => {
                        return ControlFlow::Break(PageOutcome::Stopped(take(&mut self.calls)));
                    }
                    Ok(None) if self.now() >= self.start_by.min(self.task.deadline) => {
                        return ControlFlow::Break(self.too_late());
                    }
                    Ok(None) => {
                        let (turn_at, reason) = (self.turn_at(target), self.turn_reason(target).await);
                        return ControlFlow::Break(self.wait(turn_at, reason, target));
                    }
                    Err(fault) => {
                        return ControlFlow::Break(PageOutcome::Faulted(fault, take(&mut self.calls)));
                    }
                }
            }
            Err(fault) => return ControlFlow::Break(PageOutcome::Faulted(fault, take(&mut self.calls))),
        };
        // It may have been paused while this page waited for its slot.
        if let Some(until) = reader.paces.paused(target).await {
            reader.slots.release(slot).await;
            return match self.is_worth_waiting(target, until).await {
                true => ControlFlow::Break(self.wait(until, WaitReason::RateLimited, target)),
                false => ControlFlow::Continue(None),
            };
        }
        let (holder, timeout) = (self.task.holder, self.settings.request_timeout);
        match breakers::admit(&reader.breakers, target, holder, urgency, timeout).await {
            Some(passes) => ControlFlow::Continue(Some(Admitted { slot, passes })),
            None => {
                reader.slots.release(slot).await;
                self.skip(target)
            }
        }
    }

    fn skip<T>(&mut self, target: &Target) -> ControlFlow<PageOutcome, Option<T>> {
        let now = self.now();
        if !self.calls.iter().any(|call| call.target == *target) {
            self.calls.push(ModelCall { result: CallResult::BreakerOpen, ..ModelCall::new(target, now, 0) });
        }
        ControlFlow::Continue(None)
    }

    pub(super) async fn give_back(&self, target: &Target, admitted: Admitted) {
        let reader = self.task.reader;
        reader.slots.release(admitted.slot).await;
        breakers::given_up(&reader.breakers, target, &admitted.passes).await;
    }

    /// Whether the page should wait for this model, which is free at `free_at`, instead of going to the next
    /// one: only before the first call of a round, and while the model can read all pages in time.
    async fn is_worth_waiting(&self, target: &Target, free_at: Timestamp) -> bool {
        let reader = self.task.reader;
        let was_called = self.calls.iter().any(|call| call.result != CallResult::BreakerOpen);
        let is_patient = free_at <= self.now() || free_at <= patience::patient_until(&self.page());
        if was_called || !is_patient || reader.paces.is_stalled(target) {
            return false;
        }
        // A model that only refuses reads no page in time, whatever its limit.
        if reader.paces.refusals(target).await > MAX_REFUSALS && self.has_other_model(target).await {
            return false;
        }
        if self.is_exhausted(target).await && self.has_open_model(target).await {
            return false;
        }
        let queue = Queue {
            pages: reader.backlog.pages(reader, self.task.job, self.task.message.priority).await,
            limit: reader.paces.limit(target).await,
            latency: reader.paces.latency(target),
            calls_per_second: reader.slots.calls_per_second(target),
            free_at,
        };
        if patience::is_worth_sharing(&queue, self.now())
            && self.has_free_model(|other| other.provider != target.provider).await
        {
            return false;
        }
        patience::reads_all_in_time(&queue, self.task.deadline)
    }

    /// Whether one of these models answers, and has room for a call now.
    async fn has_free_model(&self, among: impl Fn(&Target) -> bool) -> bool {
        let reader = self.task.reader;
        for other in self.steps.iter().filter(|other| among(other)) {
            if !self.is_refused(other)
                && !self.has_failed(other)
                && breakers::lets_through(&reader.breakers, other, &self.steps, Urgency::Normal).await
                && reader.paces.paused(other).await.is_none()
                && !reader.paces.is_stalled(other)
                && reader.slots.has_room(other).await
            {
                return true;
            }
        }
        false
    }

    /// Whether the breaker of another model is open, which could be probed.
    async fn has_open_model(&self, target: &Target) -> bool {
        let reader = self.task.reader;
        for other in self.steps.iter().filter(|other| *other != target && !self.is_refused(other)) {
            breakers::lets_through(&reader.breakers, other, &self.steps, Urgency::Normal).await;
            let open = breakers::available_at(&reader.breakers, other, Urgency::Normal).await;
            if open.is_some_and(|(_, is_misconfigured)| !is_misconfigured) {
                return true;
            }
        }
        false
    }

    /// Whether another model could be called now.
    async fn has_other_model(&self, target: &Target) -> bool {
        let reader = self.task.reader;
        for other in self.steps.iter().filter(|other| *other != target && !self.is_refused(other)) {
            if breakers::lets_through(&reader.breakers, other, &self.steps, Urgency::Normal).await
                && reader.paces.paused(other).await.is_none()
            {
                return true;
            }
        }
        false
    }

    /// This page, for the decision what follows.
    fn page(&self) -> patience::Page {
        let task = self.task;
        patience::Page {
            rounds: task.rounds + 1,
            first_round_at: task.first_round_at,
            was_called: self.all_calls().any(|call| call.result != CallResult::BreakerOpen),
            patience: task.job.received.options.patience,
            deadline: task.deadline,
            now: self.now(),
            jitter: self.jitter(),
        }
    }

    pub(super) fn slot_pause(&self, target: &Target) -> Duration {
        let usual = self.task.reader.paces.latency(target).map_or(Duration::ZERO, |latency| latency.median());
        usual.clamp(Duration::from_millis(250), Duration::from_secs(2))
    }

    /// Why a model that is neither paused nor in cooldown takes no call now.
    async fn turn_reason(&self, target: &Target) -> WaitReason {
        let (slots, paces) = (&self.task.reader.slots, &self.task.reader.paces);
        // With a free slot it was the quota that was waited for, even if it has room just now.
        let has_slot = slots.in_flight_estimate(target) < paces.limit(target).await;
        let is_limited =
            slots.header_wait(target).is_some() || has_slot && slots.calls_per_second(target).is_some();
        if is_limited { WaitReason::QuotaUsedUp } else { WaitReason::NoSlot }
    }

    /// When to look again for a slot of a model that has none now.
    fn turn_at(&self, target: &Target) -> Timestamp {
        let pause = self.task.reader.slots.header_wait(target).unwrap_or_default();
        after(self.now(), pause.max(self.slot_pause(target)))
    }

    /// When a page whose turn does not come within the time that it may wait in the worker is to look again:
    /// otherwise the pages of a slow model would keep the workers from those of the others. `None` where its turn
    /// may come, or it has little time.
    async fn turn_elsewhere(&self, target: &Target) -> Option<Timestamp> {
        let (reader, priority) = (self.task.reader, self.task.message.priority);
        let waiting = reader.slots.waiting(target, priority);
        if waiting < MIN_WAITERS {
            return None;
        }
        let queue = Queue {
            pages: reader.backlog.pages(reader, self.task.job, priority).await,
            limit: reader.paces.limit(target).await,
            latency: reader.paces.latency(target),
            calls_per_second: reader.slots.calls_per_second(target),
            free_at: self.now(),
        };
        let pause = patience::turn_pause(&queue, waiting, SLOT_WAIT)?;
        let turn_at = after(self.now(), pause.mul_f64(0.75 + self.jitter() / 4.0));
        (after(turn_at, MIN_CALL_TIME) < self.start_by.min(self.task.deadline)).then_some(turn_at)
    }

    fn jitter(&self) -> f64 {
        self.task.reader.store.ids.random_below(1000) as f64 / 1000.0
    }

    /// What a round found out about a model.
    async fn state_of(&self, target: &Target, urgency: Urgency) -> StepState {
        let reader = self.task.reader;
        if self.is_refused(target) {
            return StepState::Refused;
        }
        if let Some((at, is_misconfigured)) = breakers::available_at(&reader.breakers, target, urgency).await
        {
            return match is_misconfigured {
                true => StepState::Misconfigured,
                false => StepState::AvailableAt(at, WaitReason::BreakerOpen),
            };
        }
        if let Some(until) = reader.paces.paused(target).await {
            return StepState::AvailableAt(until, WaitReason::RateLimited);
        }
        match self.has_failed(target) {
            true => StepState::AvailableAt(self.retry_at(target), WaitReason::CallFailed),
            false => StepState::AvailableAt(self.turn_at(target), self.turn_reason(target).await),
        }
    }

    /// When a model that failed may be called again for this page. Where it answers other calls, what it asked for
    /// was of no account.
    fn retry_at(&self, target: &Target) -> Timestamp {
        let now = self.now();
        let asked = self.retry_at.iter().rfind(|(asking, _)| asking == target).map(|(_, at)| *at);
        let failed_at =
            self.calls.iter().rfind(|call| call.target == *target).map_or(now, |call| call.ended_at());
        asked.filter(|_| !self.task.reader.paces.has_answered_since(target, failed_at)).unwrap_or(now)
    }

    /// Decides what follows a round without the page's text.
    async fn next_round(&mut self) -> PageOutcome {
        let mut states = Vec::with_capacity(self.steps.len());
        let mut exhausted = Vec::with_capacity(self.steps.len());
        for target in &self.steps {
            exhausted.push(self.is_exhausted(target).await);
        }
        for urgency in [Urgency::Normal, Urgency::NoOtherModel] {
            states.clear();
            for target in &self.steps {
                states.push((target.clone(), self.state_of(target, urgency).await));
            }
            let is_available = |state: &StepState| state.is_available_without_probe();
            if states
                .iter()
                .zip(&exhausted)
                .any(|((_, state), is_exhausted)| is_available(state) && !is_exhausted)
            {
                break;
            }
        }
        if let Some(reason) = self.lack_of_money().map(str::to_owned) {
            return self.fall_back(reason);
        }
        let (task, page) = (self.task, self.page());
        let now = page.now;
        match patience::next_round(&page, &states) {
            NextRound::At(at, reason, target) => self.wait(at, reason, target),
            NextRound::GiveUp(GiveUp::NoTime)
                if task.message.redrive_count == 0 && until(now, task.deadline) <= NEAR_DEADLINE =>
            {
                let reason = states.iter().find_map(|(target, state)| match state {
                    StepState::AvailableAt(_, reason) => Some((*reason, target)),
                    StepState::Refused | StepState::Misconfigured => None,
                });
                match reason {
                    Some((reason, target)) => self.wait(task.deadline, reason, target),
                    None => self.out_of_time(),
                }
            }
            NextRound::GiveUp(why) => {
                let detail = self.all_calls().filter(|call| !call.detail.is_empty()).last();
                let reason = match detail {
                    Some(call) => format!("{}: {}", why.reason(), call.detail),
                    None => why.reason().to_owned(),
                };
                self.fall_back(reason)
            }
        }
    }

    pub(super) fn wait(&mut self, until: Timestamp, reason: WaitReason, target: &Target) -> PageOutcome {
        // A page that only waits for its turn has had no round.
        let rounds = self.task.rounds + u32::from(!reason.is_turn());
        let waiting = Waiting { until, reason, target: target.clone(), rounds };
        PageOutcome::Waiting(waiting, take(&mut self.calls))
    }

    /// The outcome when it is too late for a call: because of the worker's end, or of the deadline.
    pub(super) fn too_late(&mut self) -> PageOutcome {
        if self.start_by >= self.task.deadline {
            return self.out_of_time();
        }
        PageOutcome::PassedOn(take(&mut self.calls))
    }

    pub(super) fn out_of_time(&mut self) -> PageOutcome {
        // The time of a page that heals is not the job's, whose deadline may never have come.
        if self.task.message.redrive_count > 0 {
            return self.fall_back("no answer in the time given for healing".to_owned());
        }
        let now = self.now();
        PageOutcome::Settled(Settlement::timed_out(take(&mut self.calls), self.started_at, now), None)
    }

    fn fall_back(&mut self, reason: String) -> PageOutcome {
        let now = self.now();
        PageOutcome::Settled(Settlement::fallback(reason, take(&mut self.calls), self.started_at, now), None)
    }

    pub(super) fn settle(
        &mut self,
        target: Target,
        text: String,
        confidence: Option<Confidence>,
    ) -> PageOutcome {
        let calls = take(&mut self.calls);
        let settlement = Settlement::read_by(target, &text, confidence, calls, self.started_at, self.now());
        PageOutcome::Settled(settlement, Some(text))
    }
}
