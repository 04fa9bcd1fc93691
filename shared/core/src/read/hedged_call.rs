//! One step of a round: a call to a model, doubled with the next model if it takes unusually long.

use std::mem::take;

use futures::future::{Either, select};
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

impl Round<'_> {
    /// Calls the model at `index`, and the next one as well if it takes unusually long. Returns the outcome
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
            let cut = CancellationToken::new();
            let planned = round.plan_call(&target, admitted, funds).await?;
            let replied = planned.replied.clone();
            let is_flex = planned.is_flex();
            let mut first = std::pin::pin!(planned.run(&cut));
            // A call that is meant to be slow is not doubled.
            let hedge = round.hedge_plan(index).filter(|_| !is_flex);
            let late = async {
                match hedge {
                    Some(hedge) => round.task.reader.store.clock.sleep(hedge.after).await,
                    None => std::future::pending().await,
                }
            };
            let early = tokio::select! {
                biased;
                ended = &mut first => Some(ended),
                // A reply that is being stored is not late.
                () = late => match replied.is_cancelled() {
                    true => Some(first.as_mut().await),
                    false => None,
                },
            };
            match early {
                Some(ended) => vec![ended],
                None => {
                    let is_last_chance = hedge.is_some_and(|hedge| hedge.is_last_chance);
                    let admission = std::pin::pin!(round.admit_hedge(index, is_last_chance));
                    match select(first.as_mut(), admission).await {
                        // Answered meanwhile. The admission is not dropped: it may hold a slot by now.
                        Either::Left((ended, admission)) => {
                            if let Some(unused) = admission.await {
                                round.discard(unused).await;
                            }
                            vec![ended]
                        }
                        Either::Right((None, _)) => vec![first.await],
                        Either::Right((Some(unused), _)) if replied.is_cancelled() => {
                            vec![futures::future::join(first, round.discard(unused)).await.0]
                        }
                        Either::Right((Some(second), _)) => {
                            let cut_second = CancellationToken::new();
                            let second = std::pin::pin!(second.run(&cut_second));
                            race((first, &cut), (second, &cut_second)).await
                        }
                    }
                }
            }
        };
        self.conclude(ended)
    }

    async fn plan_call(
        &self,
        target: &Target,
        admitted: Admitted,
        funds: Option<Funds>,
    ) -> Option<PlannedCall<'_>> {
        // A model whose breaker is open needs no share of the time.
        let is_open = |step: &Target| {
            self.calls.iter().any(|call| call.target == *step && call.result == CallResult::BreakerOpen)
        };
        let steps_left = self.steps.iter().filter(|step| {
            *step == target || !self.is_refused(step) && !self.has_failed(step) && !is_open(step)
        });
        let trips = breakers::trips(&self.task.reader.breakers, target).await;
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
            admitted,
            replied: CancellationToken::new(),
        })
    }

    fn hedge_plan(&self, index: usize) -> Option<hedge::Hedge> {
        let paces = &self.task.reader.paces;
        let next = self.steps.iter().skip(index + 1).find(|step| !self.is_refused(step))?;
        let left = until(self.now(), self.task.deadline);
        let is_on = self.settings.hedging == Hedging::Auto;
        is_on.then(|| hedge::plan(left, paces.latency(&self.steps[index]), paces.latency(next)))
    }

    /// The next model that is free now, if one more call may be doubled.
    async fn admit_hedge(&self, index: usize, is_last_chance: bool) -> Option<PlannedCall<'_>> {
        let reader = self.task.reader;
        for target in &self.steps[index + 1..] {
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
            if !is_leased || !reader.paces.take_hedge(target, is_last_chance) {
                self.give_back_with_funds(target, admitted, funds).await;
                return None;
            }
            return self.plan_call(target, admitted, funds).await;
        }
        None
    }

    /// Takes the results of the calls of one step. Returns the outcome where that ends the round.
    fn conclude(&mut self, ended: Vec<Ended>) -> Option<PageOutcome> {
        if ended.len() > 1 {
            telemetry::hedged(ended[0].text.is_none() && ended[1].text.is_some());
        }
        let (mut text, mut is_out_of_time, mut is_stopped) = (None, false, false);
        for mut one in ended {
            is_out_of_time |= one.is_out_of_time;
            is_stopped |= one.is_stopped;
            if let Some(other) = one.other_text.take() {
                self.accept_second(&mut one, other);
            }
            if text.is_none() {
                text = one.text.map(|text| (one.call.target.clone(), text, one.confidence));
            }
            self.calls.push(one.call);
        }
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

/// Runs two calls until one gives the page's text, and cuts the other off. Both are awaited to their ends:
/// a call that is cut off releases what it holds.
async fn race<'a>(
    (mut first, cut_first): (std::pin::Pin<&mut impl Future<Output = Ended>>, &'a CancellationToken),
    (mut second, cut_second): (std::pin::Pin<&mut impl Future<Output = Ended>>, &'a CancellationToken),
) -> Vec<Ended> {
    tokio::select! {
        biased;
        one = &mut first => {
            if one.text.is_some() {
                cut_second.cancel();
            }
            vec![one, second.await]
        }
        other = &mut second => {
            if other.text.is_some() {
                cut_first.cancel();
            }
            vec![first.await, other]
        }
    }
}
