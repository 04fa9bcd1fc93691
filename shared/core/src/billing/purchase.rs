//! Buying credits: a saga of four steps, each with a way back.
//!
//! ```text
//! reserve ─▶ take payment ─▶ allocate ─▶ enter ─▶ COMPLETED
//!    │             │             │          │
//! release ◀──── refund ◀─── take back ◀─ remove        COMPENSATED, or MANUAL when one is stuck
//! ```
//!
//! Every step is written down before it is taken and after, and has a key under which taking it twice
//! is taking it once: whoever finds a purchase half done goes on from there. This is the pure part, a
//! fold of events like a job; `usecases::purchase` takes the steps.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Aggregate, Event, Head, decode},
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    settings::Strategy,
    time::after,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The account makes room for the credits.
    Reserve,
    TakePayment,
    /// The credits are the tenant's, and not in its balance yet.
    Allocate,
    /// The ledger says so, and with it the balance.
    Enter,
}

impl Step {
    pub const ALL: [Self; 4] = [Self::Reserve, Self::TakePayment, Self::Allocate, Self::Enter];

    pub fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::TakePayment => "take_payment",
            Self::Allocate => "allocate",
            Self::Enter => "enter",
        }
    }

    /// Under this the step is taken once, however often it is asked for.
    pub fn key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}", self.name())
    }

    /// The same for its way back.
    pub fn undo_key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}:undo", self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    Running,
    Completed,
    Compensating,
    Compensated,
    /// A person has to decide.
    Manual,
    /// A person has put it right outside of Everypage.
    Resolved,
}

impl State {
    /// Nothing more happens by itself.
    pub fn is_at_rest(self) -> bool {
        !matches!(self, Self::Running | Self::Compensating)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::Manual => "manual",
            Self::Resolved => "resolved",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Waiting,
    /// Written down, and perhaps taken.
    Started,
    Done,
    /// It was answered with a no: it was not taken, for certain.
    Refused,
    /// It may have been taken: nobody knows.
    Unknown,
    Undoing,
    Undone,
    /// Its way back was tried in vain.
    Stuck,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    pub step: Step,
    pub state: StepState,
    /// Of the way that it is on now.
    pub tries: u32,
    /// What the last try failed of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub tenant: TenantId,
    pub by: String,
    pub credits: u64,
    pub price_micro_usd: MicroUsd,
    pub strategy: Strategy,
}

/// Events of a purchase's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PurchaseEvent {
    #[serde(rename = "saga.started")]
    Started(Order),
    /// Until `due` nobody else need take it.
    #[serde(rename = "saga.step_started")]
    StepStarted { step: Step, due: Timestamp },
    #[serde(rename = "saga.step_done")]
    StepDone { step: Step },
    /// `again` when it will be tried once more; `certain` when it was not taken for certain.
    #[serde(rename = "saga.step_failed")]
    StepFailed { step: Step, reason: String, certain: bool, again: Option<Timestamp> },
    #[serde(rename = "payment.completed")]
    PaymentCompleted { payment: String, amount_micro_usd: MicroUsd },
    #[serde(rename = "payment.failed")]
    PaymentFailed { reason: String },
    #[serde(rename = "payment.refunded")]
    PaymentRefunded { amount_micro_usd: MicroUsd },
    #[serde(rename = "saga.compensating")]
    Compensating { reason: String, strategy: Strategy },
    #[serde(rename = "saga.compensation_started")]
    UndoStarted { step: Step, due: Timestamp },
    #[serde(rename = "saga.compensation_done")]
    UndoDone { step: Step },
    #[serde(rename = "saga.compensation_failed")]
    UndoFailed { step: Step, reason: String, again: Option<Timestamp> },
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

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Take(Step),
    Undo(Step),
    Rest,
}

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Trying again ends the same way.
    Refused(String),
    /// It may have been taken all the same.
    Unknown(String),
}

/// A person's word on a purchase that waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on where it stopped.
    Resume,
    /// Undo all that is not undone; also of a purchase that was completed.
    RollBack { reason: String },
    /// It was put right elsewhere.
    Resolve { note: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purchase that is {} can't be {wish}: {why}", .state.name())]
pub struct NotAllowed {
    pub state: State,
    pub wish: &'static str,
    pub why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    pub id: PurchaseId,
    #[serde(flatten)]
    pub order: Order,
    pub state: State,
    pub steps: [StepRecord; 4],
    /// What the payment service calls the payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    /// A payment was asked for and its answer never heard: a later no does not mean that none was taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Why it is undone, or waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// When it is to be looked at next.
    pub due: Timestamp,
    pub head: Head,
}

/// Time for one try of a step; then whoever took it is gone.
const STEP_TIME: Duration = Duration::from_secs(60);
/// A step that must be taken is tried so often, the later times with this pause.
const MOST_TRIES_FORWARD: u32 = 20;
const LONG_PAUSE: Duration = Duration::from_secs(300);

impl Purchase {
    pub fn new(id: PurchaseId, order: Order, at: Timestamp) -> Self {
        let waiting = |step| StepRecord { step, state: StepState::Waiting, tries: 0, reason: None };
        Self {
            id,
            order,
            state: State::Running,
            steps: Step::ALL.map(waiting),
            payment: None,
            in_doubt: false,
            reason: None,
            started_at: at,
            ended_at: None,
            due: at,
            head: Head::default(),
        }
    }

    /// The purchase after `event`. Only events that [`Purchase::task`] and its answers lead to are ever
    /// made, so that there is nothing to refuse.
    pub fn apply(
        before: Option<&Self>,
        id: &PurchaseId,
        event: &PurchaseEvent,
        at: Timestamp,
    ) -> Option<Self> {
        let Some(before) = before else {
            let PurchaseEvent::Started(order) = event else { return None };
            return Some(Self::new(id.clone(), order.clone(), at));
        };
        let mut next = before.clone();
        match event {
            PurchaseEvent::Started(_) => return None,
            PurchaseEvent::StepStarted { step, due } => {
                // Whoever began it before died, or heard nothing.
                let again = next.record(*step).state == StepState::Started;
                next.in_doubt |= *step == Step::TakePayment && again;
                next.begin(*step, StepState::Started);
                next.due = *due;
            }
            PurchaseEvent::StepDone { step } => {
                next.end(*step, StepState::Done, None);
                next.due = at;
            }
            PurchaseEvent::StepFailed { step, reason, certain, again } => {
                let failed = match (again, certain) {
                    (Some(_), _) => StepState::Started,
                    (None, true) => StepState::Refused,
                    (None, false) => StepState::Unknown,
                };
                next.in_doubt |= *step == Step::TakePayment && !certain;
                next.end(*step, failed, Some(reason));
                next.due = again.unwrap_or(at);
            }
            PurchaseEvent::PaymentCompleted { payment, .. } => next.payment = Some(payment.clone()),
            PurchaseEvent::PaymentFailed { .. } | PurchaseEvent::PaymentRefunded { .. } => {}
            PurchaseEvent::Compensating { reason, strategy } => {
                next.state = State::Compensating;
                next.order.strategy = *strategy;
                next.reason = Some(reason.clone());
                (next.ended_at, next.due) = (None, at);
                for record in next.steps.iter_mut().filter(|record| record.state == StepState::Stuck) {
                    (record.state, record.tries) = (StepState::Undoing, 0);
                }
            }
            PurchaseEvent::UndoStarted { step, due } => {
                next.begin(*step, StepState::Undoing);
                next.due = *due;
            }
            PurchaseEvent::UndoDone { step } => {
                next.end(*step, StepState::Undone, None);
                next.due = at;
            }
            PurchaseEvent::UndoFailed { step, reason, again } => {
                let failed = if again.is_some() { StepState::Undoing } else { StepState::Stuck };
                next.end(*step, failed, Some(reason));
                next.due = again.unwrap_or(at);
            }
            PurchaseEvent::Completed {} => next.rest(State::Completed, at),
            PurchaseEvent::Compensated {} => next.rest(State::Compensated, at),
            PurchaseEvent::Manual { reason } => {
                next.rest(State::Manual, at);
                next.reason = Some(reason.clone());
            }
            PurchaseEvent::Resumed { .. } => {
                next.state = State::Running;
                (next.reason, next.ended_at, next.due) = (None, None, at);
                for record in next.steps.iter_mut().filter(|record| record.state != StepState::Done) {
                    (record.state, record.tries) = (StepState::Waiting, 0);
                }
            }
            PurchaseEvent::Resolved { note, .. } => {
                next.rest(State::Resolved, at);
                next.reason = Some(note.clone());
            }
        }
        Some(next)
    }

    fn record(&self, step: Step) -> &StepRecord {
        &self.steps[step as usize]
    }

    /// One more try, of a way that may be new.
    fn begin(&mut self, step: Step, state: StepState) {
        let record = &mut self.steps[step as usize];
        record.tries = if record.state == state { record.tries + 1 } else { 1 };
        record.state = state;
    }

    fn end(&mut self, step: Step, state: StepState, reason: Option<&String>) {
        let record = &mut self.steps[step as usize];
        (record.state, record.reason) = (state, reason.cloned());
    }

    fn rest(&mut self, state: State, at: Timestamp) {
        self.state = state;
        self.ended_at = Some(at);
    }

    /// Rebuilds a purchase from its trail alone.
    pub fn replay(events: &[Event]) -> Result<Option<Self>, String> {
        let mut purchase: Option<Self> = None;
        for event in events {
            let Aggregate::Purchase(id) = &event.aggregate else {
                return Err(format!("event {} belongs to {}", event.id, event.aggregate));
            };
            let typed = decode(event).map_err(|error| format!("event {}: {error}", event.id))?;
            let next = Self::apply(purchase.as_ref(), id, &typed, event.timestamp);
            let mut next = next.ok_or_else(|| format!("event {} does not follow", event.id))?;
            next.head = Head::of(event);
            purchase = Some(next);
        }
        Ok(purchase)
    }

    pub fn task(&self) -> Task {
        match self.state {
            State::Running => {
                let next = self.steps.iter().find(|record| record.state != StepState::Done);
                next.map_or(Task::Rest, |record| Task::Take(record.step))
            }
            State::Compensating => self.next_undo().map_or(Task::Rest, Task::Undo),
            _ => Task::Rest,
        }
    }

    /// The last step that is still to be undone. In our books a way back begins where the one after it
    /// ended: when that is stuck, those before it wait for it, and what others have ordered is left alone.
    fn next_undo(&self) -> Option<Step> {
        let in_books = |record: &StepRecord| record.step != Step::TakePayment;
        let stuck = self.steps.iter().rfind(|record| in_books(record) && record.state == StepState::Stuck);
        let undoes = |record: &&StepRecord| match record.state {
            _ if in_books(record) && stuck.is_some() => false,
            StepState::Done => !self.keeps(record.step),
            StepState::Unknown | StepState::Undoing => true,
            _ => false,
        };
        self.steps.iter().rev().find(undoes).map(|record| record.step)
    }

    /// Is what this step did still there?
    fn stands(&self, step: Step) -> bool {
        matches!(self.record(step).state, StepState::Done | StepState::Undoing | StepState::Stuck)
    }

    /// The steps whose place in the account is given back when a person has put a purchase right
    /// elsewhere. Credits that are in the balance stay there.
    pub fn given_back(&self) -> &'static [Step] {
        if self.stands(Step::Enter) {
            &[]
        } else if self.stands(Step::Allocate) {
            &[Step::Allocate, Step::Reserve]
        } else if self.stands(Step::Reserve) {
            &[Step::Reserve]
        } else {
            &[]
        }
    }

    /// A partial way back leaves the money, and what it was taken for.
    fn keeps(&self, step: Step) -> bool {
        self.order.strategy == Strategy::Partial
            && matches!(step, Step::Reserve | Step::TakePayment)
            && self.record(Step::TakePayment).state == StepState::Done
    }

    /// Written before a step, or its way back, is tried.
    pub fn starting(&self, task: Task, now: Timestamp) -> Option<PurchaseEvent> {
        let due = after(now, STEP_TIME);
        match task {
            Task::Take(step) => Some(PurchaseEvent::StepStarted { step, due }),
            Task::Undo(step) => Some(PurchaseEvent::UndoStarted { step, due }),
            Task::Rest => None,
        }
    }

    /// Written after a step was taken; `payment` is what the service calls it.
    pub fn taken(&self, step: Step, payment: Option<String>) -> Vec<PurchaseEvent> {
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

    /// Written after a try in vain: again after a pause, or whatever the strategy has.
    pub fn not_taken(
        &self,
        step: Step,
        why: NotTaken,
        now: Timestamp,
        pauses: &[Duration],
    ) -> Vec<PurchaseEvent> {
        let (reason, refused) = match why {
            NotTaken::Refused(reason) => (reason, true),
            NotTaken::Unknown(reason) => (reason, false),
        };
        let (strategy, tries) = (self.order.strategy, self.record(step).tries);
        let pause = match (refused, pauses.get(tries.saturating_sub(1) as usize)) {
            (true, _) => None,
            (false, Some(pause)) => Some(*pause),
            (false, None) if strategy == Strategy::Forward && tries < MOST_TRIES_FORWARD => Some(LONG_PAUSE),
            (false, None) => None,
        };
        let again = pause.map(|pause| after(now, pause));
        // After a try that nobody knows the end of, a no may come too late to mean that nothing was taken.
        // Our own books are not in doubt: what they refuse was never written.
        let certain = refused && !(step == Step::TakePayment && self.in_doubt);
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

    /// Written after a step was undone.
    pub fn undone(&self, step: Step) -> Vec<PurchaseEvent> {
        let mut events = vec![PurchaseEvent::UndoDone { step }];
        if step == Step::TakePayment && self.payment.is_some() {
            let amount_micro_usd = self.order.price_micro_usd;
            events.insert(0, PurchaseEvent::PaymentRefunded { amount_micro_usd });
        }
        events
    }

    /// Written after a way back was tried in vain. After the last try it is stuck, and the others go on.
    pub fn not_undone(
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

    /// The end of a way back that has nothing left to undo.
    pub fn compensated(&self) -> Option<PurchaseEvent> {
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
            PurchaseEvent::Manual { reason: format!("{because}; the money was taken and is not given back") }
        } else {
            PurchaseEvent::Compensated {}
        })
    }

    /// What follows from a person's word.
    pub fn decided(&self, by: &str, decision: Decision) -> Result<PurchaseEvent, NotAllowed> {
        let refuse = |wish, why| Err(NotAllowed { state: self.state, wish, why });
        let by = by.to_owned();
        match decision {
            Decision::Resume if self.state != State::Manual => {
                refuse("resumed", "it does not wait for a person")
            }
            Decision::Resume => match self.record(Step::TakePayment).state {
                StepState::Undoing | StepState::Undone | StepState::Stuck => {
                    refuse("resumed", "its payment was or may have been given back")
                }
                _ => Ok(PurchaseEvent::Resumed { by }),
            },
            Decision::RollBack { reason } => match self.state {
                State::Manual | State::Completed => {
                    let reason = format!("{reason} (by {by})");
                    Ok(PurchaseEvent::Compensating { reason, strategy: Strategy::Rollback })
                }
                _ => refuse("rolled back", "it goes its way, or was undone before"),
            },
            Decision::Resolve { note } if self.state == State::Manual => {
                Ok(PurchaseEvent::Resolved { by, note })
            }
            Decision::Resolve { .. } => refuse("resolved", "it does not wait for a person"),
        }
    }
}

#[cfg(test)]
#[path = "purchase_tests.rs"]
mod tests;
