//! A purchase of credits: a saga of four steps, each of which can be undone.
//!
//! ```text
//! reserve ─▶ take payment ─▶ allocate ─▶ enter ─▶ COMPLETED
//!    │             │             │          │
//! release ◀──── refund ◀─── take back ◀─ remove        COMPENSATED, or MANUAL if one can't be undone
//! ```
//!
//! A purchase is the fold of its events. Each step is recorded before and after it runs, and has an
//! idempotency key, so that any process can continue an unfinished purchase. The decisions are in
//! [`super::saga`]; [`super::buy`] runs the steps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    event::{Aggregate, Event, Head, decode},
    ids::{PurchaseId, TenantId},
    money::MicroUsd,
    settings::Strategy,
};

/// A step of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[schema(as = PurchaseStepName)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Step {
    /// Reserves room for the credits in the account.
    Reserve,
    TakePayment,
    /// Allocates the credits to the tenant, outside of its balance.
    Allocate,
    /// Enters the credits into the ledger, and with that into the balance.
    Enter,
}

impl Step {
    pub const ALL: [Self; 4] = [Self::Reserve, Self::TakePayment, Self::Allocate, Self::Enter];

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Idempotency key of the step: it takes effect once, however often it runs.
    pub fn key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}", self.name())
    }

    /// Idempotency key for undoing the step.
    pub fn undo_key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}:undo", self.name())
    }
}

/// The state of a purchase: `MANUAL` needs a person's decision, `RESOLVED` has had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[schema(as = PurchaseState)]
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
    /// Whether the purchase continues by itself.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Compensating)
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The state of a step of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PurchaseStepState)]
#[serde(rename_all = "snake_case")]
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    pub step: Step,
    pub state: StepState,
    /// How often the step was run, or undone if it is being undone.
    pub tries: u32,
    /// Why the last try failed.
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
    /// No other process runs the step before `due`.
    #[serde(rename = "saga.step_started")]
    StepStarted { step: Step, due: Timestamp },
    #[serde(rename = "saga.step_done")]
    StepDone { step: Step },
    /// `again` is the time of the next try, if there is one; `certain` if the step certainly did not
    /// take effect.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    pub id: PurchaseId,
    #[serde(flatten)]
    pub order: Order,
    pub state: State,
    pub steps: [StepRecord; 4],
    /// The payment service's id of the payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    /// A charge was sent whose response was lost: if a later one is declined, the payment may have been
    /// taken all the same.
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
    pub head: Head,
}

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

    /// The purchase after `event`. Only [`super::saga`] creates events, and all of them are legal; `None`
    /// only if the trail does not start with [`PurchaseEvent::Started`].
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
                // The process that started it before died, or got no response.
                let is_repeated = next.record(*step).state == StepState::Started;
                next.in_doubt |= *step == Step::TakePayment && is_repeated;
                next.start_try(*step, StepState::Started);
                next.due = *due;
            }
            PurchaseEvent::StepDone { step } => {
                next.end_try(*step, StepState::Done, None);
                next.due = at;
            }
            PurchaseEvent::StepFailed { step, reason, certain, again } => {
                let failed = match (again, certain) {
                    // It certainly had no effect, so that the next try is not in doubt.
                    (Some(_), true) => StepState::Waiting,
                    (Some(_), false) => StepState::Started,
                    (None, true) => StepState::Refused,
                    (None, false) => StepState::Unknown,
                };
                next.in_doubt |= *step == Step::TakePayment && !certain;
                next.end_try(*step, failed, Some(reason));
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
                next.start_try(*step, StepState::Undoing);
                next.due = *due;
            }
            PurchaseEvent::UndoDone { step } => {
                next.end_try(*step, StepState::Undone, None);
                next.due = at;
            }
            PurchaseEvent::UndoFailed { step, reason, again } => {
                let failed = if again.is_some() { StepState::Undoing } else { StepState::Stuck };
                next.end_try(*step, failed, Some(reason));
                next.due = again.unwrap_or(at);
            }
            PurchaseEvent::Completed {} => next.stop(State::Completed, at),
            PurchaseEvent::Compensated {} => next.stop(State::Compensated, at),
            PurchaseEvent::Manual { reason } => {
                next.stop(State::Manual, at);
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
                next.stop(State::Resolved, at);
                next.reason = Some(note.clone());
            }
        }
        Some(next)
    }

    pub(super) fn record(&self, step: Step) -> &StepRecord {
        &self.steps[step as usize]
    }

    /// Counts one more try, from 1 if the direction changed.
    fn start_try(&mut self, step: Step, state: StepState) {
        let record = &mut self.steps[step as usize];
        record.tries = if record.state == state { record.tries + 1 } else { 1 };
        record.state = state;
    }

    fn end_try(&mut self, step: Step, state: StepState, reason: Option<&String>) {
        let record = &mut self.steps[step as usize];
        (record.state, record.reason) = (state, reason.cloned());
    }

    fn stop(&mut self, state: State, at: Timestamp) {
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
            let mut next =
                next.ok_or_else(|| format!("event {} does not follow the one before it", event.id))?;
            next.head = Head::of(event);
            purchase = Some(next);
        }
        Ok(purchase)
    }
}
