//! The decisions of a saga: which step comes next, what is recorded after it succeeded or failed, and what
//! an operator may decide. Pure functions; [`super::run`] runs the steps.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    definition::SagaStep,
    progress::{Progress, SagaEvent, State, StepState},
};
use crate::{ports::Fault, settings::Strategy, time::after};

/// The next action of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<S> {
    Run(S),
    Undo(S),
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

impl From<Fault> for StepFailure {
    fn from(fault: Fault) -> Self {
        Self::Unknown(fault.to_string())
    }
}

/// An operator's decision on a saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Continue where it stopped.
    Resume,
    /// Undo every step that is not undone; also allowed for a completed saga.
    RollBack { reason: String },
    /// It was settled outside of Everypage.
    Resolve { note: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{noun} that is {} can't be {action}: {why}", .state.name())]
pub struct NotAllowed {
    /// What kind of saga it is, with an article.
    pub noun: &'static str,
    pub state: State,
    pub action: &'static str,
    pub why: String,
}

impl<S: SagaStep> Progress<S> {
    /// The next task; `None` if nothing is left to run or to undo.
    pub fn next_task(&self) -> Option<Task<S>> {
        match self.state {
            State::Running => {
                let mut steps = S::definition().steps.iter().map(|spec| spec.step);
                steps.find(|step| self.state_of(*step) != StepState::Done).map(Task::Run)
            }
            State::Compensating => self.next_undo().map(Task::Undo),
            _ => None,
        }
    }

    /// The last step that is still to be undone. In the store, undoing a step needs the later steps to be
    /// undone: if one of them is stuck, the earlier ones wait, so that what belongs to others is not touched.
    fn next_undo(&self) -> Option<S> {
        let specs = S::definition().steps;
        let is_blocked =
            specs.iter().any(|spec| !spec.is_external && self.state_of(spec.step) == StepState::Stuck);
        let mut candidates = specs.iter().rev().filter(|spec| spec.undone.is_some());
        let found = candidates.find(|spec| match self.state_of(spec.step) {
            _ if !spec.is_external && is_blocked => false,
            StepState::Done => !self.keeps(spec.step),
            StepState::Unknown | StepState::Undoing => true,
            _ => false,
        });
        found.map(|spec| spec.step)
    }

    /// Whether the effect of this step still exists.
    pub fn is_in_effect(&self, step: S) -> bool {
        matches!(self.state_of(step), StepState::Done | StepState::Undoing | StepState::Stuck)
    }

    /// Whether a partial rollback keeps this step.
    fn keeps(&self, step: S) -> bool {
        let mut kept = S::definition().steps.iter().filter(|spec| spec.is_kept);
        self.strategy == Strategy::Partial
            && step.spec().is_kept
            && kept.all(|spec| self.state_of(spec.step) == StepState::Done)
    }

    /// Whether everything that was done can be undone; `refused` certainly was not done.
    fn can_be_undone(&self, refused: Option<S>) -> bool {
        let mut specs = S::definition().steps.iter();
        specs.all(|spec| {
            spec.undone.is_some()
                || refused == Some(spec.step)
                || matches!(self.state_of(spec.step), StepState::Waiting | StepState::Refused)
        })
    }

    /// The event to record before a step is run or undone.
    pub fn start(&self, task: Task<S>, now: Timestamp) -> SagaEvent<S> {
        let due = after(now, S::definition().step_timeout);
        match task {
            Task::Run(step) => SagaEvent::StepStarted { step, due },
            Task::Undo(step) => SagaEvent::UndoStarted { step, due },
        }
    }

    /// The events to record after a step succeeded.
    pub fn step_done(&self, step: S) -> Vec<SagaEvent<S>> {
        let is_last = S::definition().steps.last().is_some_and(|last| last.step == step);
        let completed = is_last.then_some(SagaEvent::Completed {});
        [SagaEvent::StepDone { step }].into_iter().chain(completed).collect()
    }

    /// The events to record after a step failed: a retry after a pause, or what the strategy prescribes.
    pub fn step_failed(
        &self,
        step: S,
        failure: StepFailure,
        now: Timestamp,
        pauses: &[Duration],
    ) -> Vec<SagaEvent<S>> {
        let (reason, refused, had_no_effect) = match failure {
            StepFailure::Refused(reason) => (reason, true, true),
            StepFailure::NotReached(reason) => (reason, false, true),
            StepFailure::Unknown(reason) => (reason, false, false),
        };
        let forward = &S::definition().forward;
        let tries = self.tries_of(step);
        let pause = match (refused, pauses.get(tries.saturating_sub(1) as usize)) {
            (true, _) => None,
            (false, Some(pause)) => Some(*pause),
            (false, None) if self.strategy == Strategy::Forward && tries < forward.max_tries => {
                Some(forward.pause)
            }
            (false, None) => None,
        };
        let again = pause.map(|pause| after(now, pause));
        // After a try with an unknown outcome, a refusal does not prove that it had none. The store is never
        // in doubt: what it refuses was not written.
        let certain = had_no_effect && !(step.spec().is_external && self.in_doubt);
        let failed = SagaEvent::StepFailed { step, reason: reason.clone(), certain, again };
        if again.is_some() {
            return vec![failed];
        }
        let end = match (self.strategy, refused) {
            (Strategy::Manual, _) | (Strategy::Forward, false) => SagaEvent::Manual { reason },
            _ if !self.can_be_undone(certain.then_some(step)) => SagaEvent::Manual { reason },
            (strategy, _) => SagaEvent::Compensating { reason, strategy },
        };
        vec![failed, end]
    }

    /// The event to record after undoing a step failed. After the last try the step is stuck, and the
    /// other steps are still undone.
    pub fn undo_failed(&self, step: S, reason: String, now: Timestamp, pauses: &[Duration]) -> SagaEvent<S> {
        let tries = self.tries_of(step);
        let again = pauses.get(tries.saturating_sub(1) as usize).map(|pause| after(now, *pause));
        SagaEvent::UndoFailed { step, reason, again }
    }

    /// The event that ends a compensation that has nothing left to undo.
    pub fn end_compensation(&self) -> Option<SagaEvent<S>> {
        if self.state != State::Compensating || self.next_undo().is_some() {
            return None;
        }
        let because = self.reason.as_deref().unwrap_or_default();
        let definition = S::definition();
        let in_state = |state: StepState| {
            let steps = definition.steps.iter().map(|spec| spec.step);
            steps.filter(move |step| self.state_of(*step) == state)
        };
        let stuck: Vec<&str> = in_state(StepState::Stuck).map(S::name).collect();
        let is_partial = in_state(StepState::Done).any(|step| self.keeps(step));
        Some(if !stuck.is_empty() {
            SagaEvent::Manual { reason: format!("{because}; could not be undone: {}", stuck.join(", ")) }
        } else if is_partial {
            SagaEvent::Manual { reason: format!("{because}; {}", definition.kept) }
        } else {
            SagaEvent::Compensated {}
        })
    }

    /// The event that an operator's decision leads to, or why it is not allowed in this state.
    pub fn decide(&self, by: &str, decision: Decision) -> Result<SagaEvent<S>, NotAllowed> {
        let definition = S::definition();
        let refuse = |action, why: &str| {
            Err(NotAllowed { noun: definition.noun, state: self.state, action, why: why.to_owned() })
        };
        let by = by.to_owned();
        match decision {
            Decision::Resume if self.state != State::Manual => {
                refuse("resumed", "it does not wait for an operator")
            }
            Decision::Resume => {
                let is_undone = |step: S| {
                    matches!(self.state_of(step), StepState::Undoing | StepState::Undone | StepState::Stuck)
                };
                let undone = definition.steps.iter().find(|spec| spec.is_external && is_undone(spec.step));
                match undone.and_then(|spec| Some((spec.step, spec.undone?))) {
                    Some((step, undone)) => {
                        refuse("resumed", &format!("{} was or may have been {undone}", step.name()))
                    }
                    None => Ok(SagaEvent::Resumed { by }),
                }
            }
            Decision::RollBack { reason } => match self.state {
                State::Manual | State::Completed if !self.can_be_undone(None) => {
                    refuse("rolled back", "what it has done can't be undone")
                }
                State::Manual | State::Completed => {
                    let reason = format!("{reason} (by {by})");
                    Ok(SagaEvent::Compensating { reason, strategy: Strategy::Rollback })
                }
                _ => refuse("rolled back", "it is still running or was rolled back before"),
            },
            Decision::Resolve { note } if self.state == State::Manual => Ok(SagaEvent::Resolved { by, note }),
            Decision::Resolve { .. } => refuse("resolved", "it does not wait for an operator"),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
