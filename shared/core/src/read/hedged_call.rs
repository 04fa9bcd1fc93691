//! One step of a round: a call to a model, doubled with the next models if it takes unusually long.

use std::{mem::take, time::Duration};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{
    answer::is_same_text,
    breaker::Urgency,
    breakers,
    call::{Ended, PlannedCall},
    funds::Funds,
    hedge,
    outcome::{CallResult, PageOutcome},
    round::{Admitted, Round},
    telemetry,
};
use crate::{
    providers::target::Target,
    settings::Hedging,
    time::{after, until},
};

/// How soon a page in its last chance looks again for a model that is free.
const HEDGE_RETRY: Duration = Duration::from_secs(1);

impl Round<'_> {
    /// Calls the model at `index`, and the next ones as well if it takes unusually long. Returns the outcome
    /// where that ends the round.
    pub(super) async fn read_with(&mut self, index: usize, admitted: Admitted) -> Option<PageOutcome> {
        let target = self.steps[index].clone();
        let funds = match self.fund(&target).await {
            Ok(funds) => funds,
            Err(lack) => {
                self.give_back(&target, admitted).await;
                return self.without_funds(&target, lack);
            }
        };
        let now = self.now();
        if now >= self.start_by || after(now, super::budget::MIN_CALL_TIME) > self.task.deadline {
            self.give_back_with_funds(&target, admitted, funds).await;
            return Some(self.too_late());
        }
        // Another worker may have the page by now: it would be paid for twice.
        if self.task.leased_until.is_over(now) {
            self.give_back_with_funds(&target, admitted, funds).await;
            return Some(PageOutcome::PassedOn(take(&mut self.calls)));
        }
        // A second look at a model that was skipped is no failover.
        let is_first = self.calls.iter().all(|call| call.target != target);
        if let Some(before) = self.calls.last().filter(|_| is_first) {
            telemetry::failed_over(before.target.provider, target.provider);
        }
        let ended = {
            let round = &*self;
            let planned = round.plan_call(&target, admitted, funds, &[]).await?;
            round.run_calls(index, planned).await
        };
        self.conclude(ended)
    }

    /// Makes the call to the model at `index`. While all calls in flight are late, the next models are called for
    /// the page as well; the first that gives its text cuts the others off. Returns the calls in the order in which
    /// they ended, each with its place in the order in which they started. All are awaited to their ends: a call
    /// that is cut off releases what it holds.
    async fn run_calls<'r>(&'r self, index: usize, first: PlannedCall<'r>) -> Vec<(usize, Ended)> {
        let clock = &self.task.reader.store.clock;
        // A call that is meant to be slow is not doubled.
        let mut due =
            self.hedge_plan(index).filter(|_| !first.is_flex()).map(|plan| Due::new(&plan, self.now()));
        let mut calls = Calls::default();
        let mut running = FuturesUnordered::new();
        let start = |calls: &mut Calls, index: usize, call: PlannedCall<'r>| {
            let (number, cut) = calls.add(index, call.replied.clone());
            async move { Step::Ended(number, Box::new(call.run(cut).await)) }.boxed()
        };
        running.push(start(&mut calls, index, first));
        let (mut ended, mut is_over) = (vec![], false);
        loop {
            let wake_at = due.filter(|due| !due.is_asked).map(Due::at);
            let late = async {
                match wake_at {
                    Some(at) => clock.sleep(until(clock.now(), at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                step = running.next() => match step {
                    None => return ended,
                    Some(Step::Ended(number, one)) => {
                        calls.ended(number);
                        if one.text.is_some() {
                            calls.cut();
                        }
                        let is_cut_short = one.is_stopped || one.is_out_of_time;
                        is_over |= one.text.is_some() || is_cut_short || calls.are_over();
                        if is_over {
                            due = None;
                        } else if calls.is_latest(number) && due.is_none_or(|due| !due.is_asked) {
                            // The others are late, and this one did not help.
                            due = self.hedge_plan(calls.latest_index()).map(|plan| Due::now(&plan, self.now()));
                        }
                        ended.push((number, *one));
                    }
                    // A reply that is being stored is not late.
                    Some(Step::Admitted(Some((_, unused)))) if is_over || calls.has_reply() => {
                        running.push(async move {
                            self.discard(*unused).await;
                            Step::Discarded
                        }.boxed());
                        due = None;
                    }
                    Some(Step::Admitted(Some((index, call)))) => {
                        due = self.hedge_plan(index).map(|plan| Due::new(&plan, self.now()));
                        let call = start(&mut calls, index, *call);
                        running.push(call);
                    }
                    Some(Step::Admitted(None)) => due = due.map(|due| due.refused(clock.now())),
                    Some(Step::Discarded) => {}
                },
                () = late => match due.as_mut() {
                    Some(due) if !calls.has_reply() => {
                        due.is_asked = true;
                        let is_last_chance = due.is_last_chance(clock.now());
                        let used = calls.indexes();
                        // It is not dropped: it may hold a slot.
                        running.push(async move {
                            let admitted = self.admit_hedge(&used, is_last_chance).await;
                            Step::Admitted(admitted.map(|(index, call)| (index, Box::new(call))))
                        }.boxed());
                    }
                    _ => due = None,
                },
            }
        }
    }

    async fn plan_call(
        &self,
        target: &Target,
        admitted: Admitted,
        funds: Option<Funds>,
        used: &[usize],
    ) -> Option<PlannedCall<'_>> {
        // A model whose breaker is open needs no share of the time.
        let is_open = |step: &Target| {
            self.calls.iter().any(|call| call.target == *step && call.result == CallResult::BreakerOpen)
        };
        let steps_left = self.steps.iter().enumerate().filter(|(index, step)| {
            let is_left = !self.is_refused(step) && !self.has_failed(step) && !is_open(step);
            *step == target || is_left && !used.contains(index)
        });
        let trips = breakers::trips(&self.task.reader.breakers, target).await;
        let index = self.steps.iter().position(|step| step == target);
        let mut request = self.request_for(target)?;
        if let Some(funds) = &funds {
            request.max_output_tokens = funds.max_output_tokens;
        }
        Some(PlannedCall {
            task: self.task,
            settings: &self.settings,
            target: target.clone(),
            others: self.steps.iter().filter(|step| *step != target).cloned().collect(),
            request,
            granted: funds.map(|funds| funds.granted),
            reference: self.reference.as_ref(),
            steps_left: steps_left.count() as u32,
            timeouts: self.count(target, CallResult::Timeout) + trips,
            is_doubled: index.is_some_and(|index| self.hedge_plan(index).is_some()),
            admitted,
            replied: CancellationToken::new(),
        })
    }

    fn hedge_plan(&self, index: usize) -> Option<hedge::Hedge> {
        let paces = &self.task.reader.paces;
        let next = self.steps.iter().skip(index + 1).find(|step| !self.is_refused(step))?;
        let left = until(self.now(), self.task.deadline.min(self.task.leave_by));
        let is_on = self.settings.hedging == Hedging::Auto;
        is_on.then(|| hedge::plan(left, paces.latency(&self.steps[index]), paces.latency(next)))
    }

    /// The next model that is free now, if one more call may be doubled, and its place among the steps. Those that
    /// are called already are at `used`.
    async fn admit_hedge(&self, used: &[usize], is_last_chance: bool) -> Option<(usize, PlannedCall<'_>)> {
        let reader = self.task.reader;
        let last = used.iter().max().copied().unwrap_or_default();
        for (index, target) in self.steps.iter().enumerate().skip(last + 1) {
            let is_free = !self.is_refused(target)
                && !self.has_failed(target)
                && self.now() < self.start_by
                && breakers::lets_through(&reader.breakers, target, &self.steps, Urgency::Normal).await
                && reader.paces.paused(target).await.is_none();
            if !is_free {
                continue;
            }
            let Ok(Some(slot)) = reader.slots.try_take(target).await else { continue };
            let (holder, timeout) = (self.task.holder, self.settings.request_timeout);
            let passes = breakers::admit(&reader.breakers, target, holder, Urgency::Normal, timeout).await;
            let Some(passes) = passes else {
                reader.slots.release(slot).await;
                continue;
            };
            let admitted = Admitted { slot, passes };
            let Ok(funds) = self.fund(target).await else {
                self.give_back(target, admitted).await;
                return None;
            };
            let is_leased = !self.task.leased_until.is_over(self.now());
            if !is_leased || !is_last_chance && !reader.hedges.take().await {
                self.give_back_with_funds(target, admitted, funds).await;
                return None;
            }
            return Some((index, self.plan_call(target, admitted, funds, used).await?));
        }
        None
    }

    /// Takes the results of the calls of one step, in the order in which they ended. Returns the outcome where that
    /// ends the round.
    fn conclude(&mut self, ended: Vec<(usize, Ended)>) -> Option<PageOutcome> {
        if ended.len() > 1 {
            let winner = ended.iter().find(|(_, one)| one.text.is_some());
            telemetry::hedged(winner.is_some_and(|(number, _)| *number > 0));
        }
        let (mut text, mut is_out_of_time, mut is_stopped) = (None, false, false);
        let mut calls = Vec::with_capacity(ended.len());
        for (number, mut one) in ended {
            is_out_of_time |= one.is_out_of_time;
            is_stopped |= one.is_stopped;
            if let Some(other) = one.other_text.take() {
                self.accept_second(&mut one, other);
            }
            if text.is_none() {
                text = one.text.map(|text| (one.call.target.clone(), text, one.confidence));
            }
            if let Some(at) = one.retry_at {
                self.retry_at.push((one.call.target.clone(), at));
            }
            calls.push((number, one.call));
        }
        calls.sort_by_key(|(number, _)| *number);
        self.calls.extend(calls.into_iter().map(|(_, call)| call));
        match text {
            Some((target, text, confidence)) => Some(self.settle(target, text, confidence)),
            None if is_stopped => Some(PageOutcome::Stopped(take(&mut self.calls))),
            None if is_out_of_time => Some(self.out_of_time()),
            None => None,
        }
    }

    /// An answer that is not the page's own text is accepted when another model has given the same: then it is the
    /// page's text that is wrong, such as a layer with a broken encoding.
    fn accept_second(&mut self, one: &mut Ended, text: String) {
        let is_same =
            |(target, other): &(Target, String)| *target != one.call.target && is_same_text(other, &text);
        if self.other_texts.iter().any(is_same) {
            one.call.result = CallResult::Answered;
            one.call.detail = "two models gave this text, which the page's own text does not have".to_owned();
            one.text = Some(text);
        } else {
            self.other_texts.push((one.call.target.clone(), text));
        }
    }
}

/// The calls of one step, in the order in which they started.
#[derive(Default)]
struct Calls(Vec<OneCall>);

struct OneCall {
    /// The model's place among the steps.
    index: usize,
    replied: CancellationToken,
    cut: CancellationToken,
    is_over: bool,
}

impl Calls {
    fn add(&mut self, index: usize, replied: CancellationToken) -> (usize, CancellationToken) {
        let cut = CancellationToken::new();
        self.0.push(OneCall { index, replied, cut: cut.clone(), is_over: false });
        (self.0.len() - 1, cut)
    }

    fn has_reply(&self) -> bool {
        self.0.iter().any(|call| !call.is_over && call.replied.is_cancelled())
    }

    fn ended(&mut self, number: usize) {
        self.0[number].is_over = true;
    }

    fn are_over(&self) -> bool {
        self.0.iter().all(|call| call.is_over)
    }

    fn is_latest(&self, number: usize) -> bool {
        number + 1 == self.0.len()
    }

    fn latest_index(&self) -> usize {
        self.0.last().map_or(0, |call| call.index)
    }

    fn indexes(&self) -> Vec<usize> {
        self.0.iter().map(|call| call.index).collect()
    }

    fn cut(&self) {
        self.0.iter().for_each(|call| call.cut.cancel());
    }
}

/// An event while the calls of a step are in flight.
enum Step<'a> {
    Ended(usize, Box<Ended>),
    /// One more call may be made, or not.
    Admitted(Option<(usize, Box<PlannedCall<'a>>)>),
    Discarded,
}

/// When the page is given to one more model.
#[derive(Clone, Copy)]
struct Due {
    late_at: Option<Timestamp>,
    last_chance_at: Timestamp,
    /// A model is being looked for.
    is_asked: bool,
}

impl Due {
    fn new(plan: &hedge::Hedge, now: Timestamp) -> Self {
        Self {
            late_at: Some(after(now, plan.late)),
            last_chance_at: after(now, plan.last_chance),
            is_asked: false,
        }
    }

    /// The calls in flight are late already.
    fn now(plan: &hedge::Hedge, now: Timestamp) -> Self {
        Self { late_at: Some(now), ..Self::new(plan, now) }
    }

    fn at(self) -> Timestamp {
        self.late_at.map_or(self.last_chance_at, |late| late.min(self.last_chance_at))
    }

    fn is_last_chance(&self, now: Timestamp) -> bool {
        now >= self.last_chance_at
    }

    /// No model was free, or no more calls may be doubled: then there is the last chance, which is tried again.
    fn refused(self, now: Timestamp) -> Self {
        Self {
            late_at: None,
            last_chance_at: self.last_chance_at.max(after(now, HEDGE_RETRY)),
            is_asked: false,
        }
    }
}
