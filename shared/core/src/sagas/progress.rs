//! How far a saga is: the fold of its events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definition::SagaStep;
use crate::{ids::Priority, settings::Strategy};

/// The state of a saga: `MANUAL` needs a person's decision, `RESOLVED` has had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[schema(as = PurchaseState, description = "The state of a purchase: `MANUAL` needs a person's decision, `RESOLVED` has had one.")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    Running,
    Completed,
    Compensating,
    Compensated,
    /// Waits for an operator's decision.
    Manual,
    /// An operator has settled it outside of Everypage.
    Resolved,
}

impl State {
    /// Whether the saga continues by itself.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Compensating)
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[schema(as = PurchaseStepState, description = "The state of a step of a purchase.")]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StepState {
    Waiting,
    /// The start is recorded; the step may have taken effect.
    Started,
    Done,
    /// It was refused and certainly did not take effect.
    Refused,
    /// It failed and may have taken effect.
    Unknown,
    Undoing,
    Undone,
    /// Undoing it failed every time.
    Stuck,
}

impl StepState {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord<S> {
    pub step: S,
    pub state: StepState,
    /// How often the step was run, or undone if it is being undone.
    pub tries: u32,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The events of a saga, but for the first, which says what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum SagaEvent<S> {
    /// No other process runs the step before `due`.
    #[serde(rename = "saga.step_started")]
    StepStarted { step: S, due: Timestamp },
    /// A part of the step is done, the rest is due at `again`.
    #[serde(rename = "saga.step_continued")]
    StepContinued { step: S, again: Timestamp },
    #[serde(rename = "saga.step_done")]
    StepDone { step: S },
    /// `again` is the time of the next try, if there is one; `certain` if the step certainly did not
    /// take effect.
    #[serde(rename = "saga.step_failed")]
    StepFailed { step: S, reason: String, certain: bool, again: Option<Timestamp> },
    #[serde(rename = "saga.compensating")]
    Compensating { reason: String, strategy: Strategy },
    #[serde(rename = "saga.compensation_started")]
    UndoStarted { step: S, due: Timestamp },
    #[serde(rename = "saga.compensation_done")]
    UndoDone { step: S },
    #[serde(rename = "saga.compensation_failed")]
    UndoFailed { step: S, reason: String, again: Option<Timestamp> },
    #[serde(rename = "saga.completed")]
    Completed {},
    #[serde(rename = "saga.compensated")]
    Compensated {},
    #[serde(rename = "saga.manual")]
    Manual { reason: String },
    #[serde(rename = "saga.resumed")]
    Resumed { by: String },
    #[serde(rename = "saga.resolved")]
    Resolved { by: String, note: String },
}

impl<S> SagaEvent<S> {
    /// The priority of the event in the trail of the saga's subject.
    pub fn priority(&self) -> Option<Priority> {
        matches!(self, Self::Manual { .. }).then_some(Priority::Critical)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "S: Serialize", deserialize = "S: serde::de::DeserializeOwned"))]
pub struct Progress<S> {
    /// What happens when a step fails.
    pub strategy: Strategy,
    pub state: State,
    /// In the order in which they run.
    pub steps: Vec<StepRecord<S>>,
    /// A try of an external step had no response: if a later one is refused, the step may have taken effect
    /// all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Why it is undone, or waits for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// When the next step is due.
    pub due: Timestamp,
}

impl<S: SagaStep> Progress<S> {
    pub fn new(strategy: Strategy, at: Timestamp) -> Self {
        let specs = S::definition().steps.iter();
        let steps = specs.map(|spec| StepRecord {
            step: spec.step,
            state: StepState::Waiting,
            tries: 0,
            reason: None,
        });
        Self {
            strategy,
            state: State::Running,
            steps: steps.collect(),
            in_doubt: false,
            reason: None,
            started_at: at,
            ended_at: None,
            due: at,
        }
    }

    /// The state of a step; [`StepState::Waiting`] if the record was written before the step existed.
    pub fn state_of(&self, step: S) -> StepState {
        self.record(step).map_or(StepState::Waiting, |record| record.state)
    }

    pub(super) fn tries_of(&self, step: S) -> u32 {
        self.record(step).map_or(0, |record| record.tries)
    }

    fn record(&self, step: S) -> Option<&StepRecord<S>> {
        self.steps.iter().find(|record| record.step == step)
    }

    /// The progress after `event`. Only [`super::decide`] creates events, and all of them are legal.
    pub fn apply(&mut self, event: &SagaEvent<S>, at: Timestamp) {
        match event {
            SagaEvent::StepStarted { step, due } => {
                // The process that started it before died, or got no response.
                let is_repeated = self.state_of(*step) == StepState::Started;
                self.in_doubt |= step.spec().is_external && is_repeated;
                self.start_try(*step, StepState::Started);
                self.due = *due;
            }
            SagaEvent::StepContinued { step, again } => {
                self.end_try(*step, StepState::Waiting, None);
                self.change(*step, |record| record.tries = 0);
                self.due = *again;
            }
            SagaEvent::StepDone { step } => {
                self.end_try(*step, StepState::Done, None);
                self.due = at;
            }
            SagaEvent::StepFailed { step, reason, certain, again } => {
                let failed = match (again, certain) {
                    // It certainly had no effect, so that the next try is not in doubt.
                    (Some(_), true) => StepState::Waiting,
                    (Some(_), false) => StepState::Started,
                    (None, true) => StepState::Refused,
                    (None, false) => StepState::Unknown,
                };
                self.in_doubt |= step.spec().is_external && !certain;
                self.end_try(*step, failed, Some(reason));
                self.due = again.unwrap_or(at);
            }
            SagaEvent::Compensating { reason, strategy } => {
                self.state = State::Compensating;
                self.strategy = *strategy;
                self.reason = Some(reason.clone());
                (self.ended_at, self.due) = (None, at);
                for record in self.steps.iter_mut().filter(|record| record.state == StepState::Stuck) {
                    (record.state, record.tries) = (StepState::Undoing, 0);
                }
            }
            SagaEvent::UndoStarted { step, due } => {
                self.start_try(*step, StepState::Undoing);
                self.due = *due;
            }
            SagaEvent::UndoDone { step } => {
                self.end_try(*step, StepState::Undone, None);
                self.due = at;
            }
            SagaEvent::UndoFailed { step, reason, again } => {
                let failed = if again.is_some() { StepState::Undoing } else { StepState::Stuck };
                self.end_try(*step, failed, Some(reason));
                self.due = again.unwrap_or(at);
            }
            SagaEvent::Completed {} => self.stop(State::Completed, at),
            SagaEvent::Compensated {} => self.stop(State::Compensated, at),
            SagaEvent::Manual { reason } => {
                self.stop(State::Manual, at);
                self.reason = Some(reason.clone());
            }
            SagaEvent::Resumed { .. } => {
                self.state = State::Running;
                (self.reason, self.ended_at, self.due) = (None, None, at);
                for record in self.steps.iter_mut().filter(|record| record.state != StepState::Done) {
                    (record.state, record.tries) = (StepState::Waiting, 0);
                }
            }
            SagaEvent::Resolved { note, .. } => {
                self.stop(State::Resolved, at);
                self.reason = Some(note.clone());
            }
        }
    }

    fn change(&mut self, step: S, change: impl FnOnce(&mut StepRecord<S>)) {
        let known = self.steps.iter().position(|record| record.step == step).unwrap_or_else(|| {
            self.steps.push(StepRecord { step, state: StepState::Waiting, tries: 0, reason: None });
            self.steps.len() - 1
        });
        change(&mut self.steps[known]);
    }

    /// Counts one more try, from 1 if the direction changed. A step that waits was not run yet, or is to be
    /// run again after a try without effect.
    fn start_try(&mut self, step: S, state: StepState) {
        self.change(step, |record| {
            let continues =
                record.state == state || (record.state, state) == (StepState::Waiting, StepState::Started);
            record.tries = if continues { record.tries + 1 } else { 1 };
            record.state = state;
        });
    }

    fn end_try(&mut self, step: S, state: StepState, reason: Option<&String>) {
        self.change(step, |record| (record.state, record.reason) = (state, reason.cloned()));
    }

    fn stop(&mut self, state: State, at: Timestamp) {
        self.state = state;
        self.ended_at = Some(at);
    }
}
