//! The decisions of a purchase's saga: which step comes next, what is recorded after it succeeded or
//! failed, and what an operator may decide. Pure functions; [`super::buy`] runs the steps.

use std::time::Duration;

use jiff::Timestamp;

use super::purchase::{Purchase, PurchaseEvent, State, Step, StepRecord, StepState};
use crate::{settings::Strategy, time::after};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Run(Step),
    Undo(Step),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepFailure {
    /// A retry would be refused again.
    Refused(String),
    /// It certainly had no effect, and a retry may succeed.
    NotReached(String),
    /// It may have taken effect all the same.
    Unknown(String),
}

/// An operator's decision on a purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Continue where it stopped.
    Resume,
    /// Undo every step that is not undone; also allowed for a completed purchase.
    RollBack { reason: String },
    /// It was settled outside of Everypage.
    Resolve { note: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purchase that is {} can't be {action}: {why}", .state.name())]
pub struct NotAllowed {
    pub state: State,
    pub action: &'static str,
    pub why: &'static str,
}

/// Time for one try of a step; after that the process that ran it is considered dead.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// Tries of a step that must succeed; those after the configured retries wait [`LONG_PAUSE`].
const MAX_FORWARD_TRIES: u32 = 20;
const LONG_PAUSE: Duration = Duration::from_secs(300);

impl Purchase {
    /// The next task; `None` if nothing is left to run or to undo.
    pub fn next_task(&self) -> Option<Task> {
        match self.state {
            State::Running => {
                let next = self.steps.iter().find(|record| record.state != StepState::Done);
                next.map(|record| Task::Run(record.step))
            }
            State::Compensating => self.next_undo().map(Task::Undo),
            _ => None,
        }
    }

    /// The last step that is still to be undone. In the account, undoing a step needs the later steps to
    /// be undone: if one of them is stuck, the earlier ones wait, so that the credits of other purchases
    /// are not touched.
    fn next_undo(&self) -> Option<Step> {
        let in_account = |record: &StepRecord| record.step != Step::TakePayment;
        let is_blocked =
            self.steps.iter().any(|record| in_account(record) && record.state == StepState::Stuck);
        let undoes = |record: &&StepRecord| match record.state {
            _ if in_account(record) && is_blocked => false,
            StepState::Done => !self.keeps(record.step),
            StepState::Unknown | StepState::Undoing => true,
            _ => false,
        };
        self.steps.iter().rev().find(undoes).map(|record| record.step)
    }

    /// Whether the effect of this step still exists.
    fn is_in_effect(&self, step: Step) -> bool {
        matches!(self.record(step).state, StepState::Done | StepState::Undoing | StepState::Stuck)
    }

    /// The steps whose credits the account releases when an operator resolves the purchase. Credits that
    /// are in the balance stay there.
    pub fn steps_to_release(&self) -> &'static [Step] {
        if self.is_in_effect(Step::Enter) {
            &[]
        } else if self.is_in_effect(Step::Allocate) {
            &[Step::Allocate, Step::Reserve]
        } else if self.is_in_effect(Step::Reserve) {
            &[Step::Reserve]
        } else {
            &[]
        }
    }

    /// Whether a partial rollback keeps this step: the payment, and the reservation that it paid for.
    fn keeps(&self, step: Step) -> bool {
        self.order.strategy == Strategy::Partial
            && matches!(step, Step::Reserve | Step::TakePayment)
            && self.record(Step::TakePayment).state == StepState::Done
    }

    /// The event to record before a step is run or undone.
    pub fn start(&self, task: Task, now: Timestamp) -> PurchaseEvent {
        let due = after(now, STEP_TIMEOUT);
        match task {
            Task::Run(step) => PurchaseEvent::StepStarted { step, due },
            Task::Undo(step) => PurchaseEvent::UndoStarted { step, due },
        }
    }

    /// The events to record after a step succeeded; `payment` is the payment service's id.
    pub fn step_done(&self, step: Step, payment: Option<String>) -> Vec<PurchaseEvent> {
        let mut events = Vec::new();
        if let Some(payment) = payment {
            let amount_micro_usd = self.order.price_micro_usd;
            events.push(PurchaseEvent::PaymentCompleted { payment, amount_micro_usd });
        }
        events.push(PurchaseEvent::StepDone { step });
        if step == Step::Enter {
            events.push(PurchaseEvent::Completed {});
        }
        events
    }

    /// The events to record after a step failed: a retry after a pause, or what the strategy prescribes.
    pub fn step_failed(
        &self,
        step: Step,
        failure: StepFailure,
        now: Timestamp,
        pauses: &[Duration],
    ) -> Vec<PurchaseEvent> {
        let (reason, refused, had_no_effect) = match failure {
            StepFailure::Refused(reason) => (reason, true, true),
            StepFailure::NotReached(reason) => (reason, false, true),
            StepFailure::Unknown(reason) => (reason, false, false),
        };
        let (strategy, tries) = (self.order.strategy, self.record(step).tries);
        let pause = match (refused, pauses.get(tries.saturating_sub(1) as usize)) {
            (true, _) => None,
            (false, Some(pause)) => Some(*pause),
            (false, None) if strategy == Strategy::Forward && tries < MAX_FORWARD_TRIES => Some(LONG_PAUSE),
            (false, None) => None,
        };
        let again = pause.map(|pause| after(now, pause));
        // After a try with an unknown outcome, a decline does not prove that nothing was charged. The
        // account is never in doubt: what it refuses was not written.
        let certain = had_no_effect && !(step == Step::TakePayment && self.in_doubt);
        let mut events = vec![PurchaseEvent::StepFailed { step, reason: reason.clone(), certain, again }];
        if again.is_some() {
            return events;
        }
        if step == Step::TakePayment {
            events.insert(0, PurchaseEvent::PaymentFailed { reason: reason.clone() });
        }
        events.push(match (strategy, refused) {
            (Strategy::Manual, _) | (Strategy::Forward, false) => PurchaseEvent::Manual { reason },
            (strategy, _) => PurchaseEvent::Compensating { reason, strategy },
        });
        events
    }

    /// The events to record after a step was undone.
    pub fn undo_done(&self, step: Step) -> Vec<PurchaseEvent> {
        let mut events = vec![PurchaseEvent::UndoDone { step }];
        if step == Step::TakePayment && self.payment.is_some() {
            let amount_micro_usd = self.order.price_micro_usd;
            events.insert(0, PurchaseEvent::PaymentRefunded { amount_micro_usd });
        }
        events
    }

    /// The event to record after undoing a step failed. After the last try the step is stuck, and the
    /// other steps are still undone.
    pub fn undo_failed(
        &self,
        step: Step,
        reason: String,
        now: Timestamp,
        pauses: &[Duration],
    ) -> PurchaseEvent {
        let tries = self.record(step).tries;
        let again = pauses.get(tries.saturating_sub(1) as usize).map(|pause| after(now, *pause));
        PurchaseEvent::UndoFailed { step, reason, again }
    }

    /// The event that ends a compensation that has nothing left to undo.
    pub fn end_compensation(&self) -> Option<PurchaseEvent> {
        if self.state != State::Compensating || self.next_undo().is_some() {
            return None;
        }
        let because = self.reason.as_deref().unwrap_or_default();
        let stuck: Vec<&str> = self
            .steps
            .iter()
            .filter(|record| record.state == StepState::Stuck)
            .map(|record| record.step.name())
            .collect();
        Some(if !stuck.is_empty() {
            PurchaseEvent::Manual { reason: format!("{because}; could not be undone: {}", stuck.join(", ")) }
        } else if self.keeps(Step::TakePayment) {
            PurchaseEvent::Manual { reason: format!("{because}; the payment was taken and not refunded") }
        } else {
            PurchaseEvent::Compensated {}
        })
    }

    /// The event that an operator's decision leads to, or why it is not allowed in this state.
    pub fn decide(&self, by: &str, decision: Decision) -> Result<PurchaseEvent, NotAllowed> {
        let refuse = |action, why| Err(NotAllowed { state: self.state, action, why });
        let by = by.to_owned();
        match decision {
            Decision::Resume if self.state != State::Manual => {
                refuse("resumed", "it does not wait for an operator")
            }
            Decision::Resume => match self.record(Step::TakePayment).state {
                StepState::Undoing | StepState::Undone | StepState::Stuck => {
                    refuse("resumed", "its payment was or may have been refunded")
                }
                _ => Ok(PurchaseEvent::Resumed { by }),
            },
            Decision::RollBack { reason } => match self.state {
                State::Manual | State::Completed => {
                    let reason = format!("{reason} (by {by})");
                    Ok(PurchaseEvent::Compensating { reason, strategy: Strategy::Rollback })
                }
                _ => refuse("rolled back", "it is still running or was rolled back before"),
            },
            Decision::Resolve { note } if self.state == State::Manual => {
                Ok(PurchaseEvent::Resolved { by, note })
            }
            Decision::Resolve { .. } => refuse("resolved", "it does not wait for an operator"),
        }
    }
}

#[cfg(test)]
#[path = "saga_tests.rs"]
mod tests;
