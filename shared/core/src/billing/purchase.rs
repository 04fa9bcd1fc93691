//! A purchase of credits: a saga of four steps, each of which can be undone.
//!
//! ```text
//! reserve ─▶ take payment ─▶ allocate ─▶ enter ─▶ COMPLETED
//!    │             │             │          │
//! release ◀──── refund ◀─── take back ◀─ remove        COMPENSATED, or MANUAL if one can't be undone
//! ```
//!
//! A purchase is the fold of its events. Each step is recorded before and after it runs, and has an
//! idempotency key, so that any process can continue an unfinished purchase. The decisions are those of
//! [`crate::sagas`]; what the steps do is in [`super::buy`].

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    event::{Aggregate, DomainEvent, Event, Head, decode},
    ids::{Priority, PurchaseId, TenantId},
    money::MicroUsd,
    sagas::{
        definition::{Definition, Forward, SagaStep, StepSpec},
        progress::{Progress, SagaEvent},
    },
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
    /// Idempotency key of the step: it takes effect once, however often it runs.
    pub fn key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}", self.name())
    }

    /// Idempotency key for undoing the step.
    pub fn undo_key(self, purchase: &PurchaseId) -> String {
        format!("{purchase}:{}:undo", self.name())
    }
}

impl SagaStep for Step {
    fn definition() -> &'static Definition<Self> {
        const IN_ACCOUNT: StepSpec<Step> =
            StepSpec { step: Step::Reserve, undone: None, is_kept: false, is_external: false };
        static PURCHASE: Definition<Step> = Definition {
            kind: "purchase",
            noun: "a purchase",
            steps: &[
                StepSpec { step: Step::Reserve, undone: Some("released"), is_kept: true, ..IN_ACCOUNT },
                StepSpec {
                    step: Step::TakePayment,
                    undone: Some("refunded"),
                    is_kept: true,
                    is_external: true,
                },
                StepSpec { step: Step::Allocate, undone: Some("taken back"), ..IN_ACCOUNT },
                StepSpec { step: Step::Enter, undone: Some("removed"), ..IN_ACCOUNT },
            ],
            step_timeout: Duration::from_secs(60),
            forward: Forward { max_tries: 20, pause: Duration::from_secs(300) },
            kept: "the payment was taken and not refunded",
        };
        &PURCHASE
    }

    fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub tenant: TenantId,
    pub by: String,
    pub credits: u64,
    pub price_micro_usd: MicroUsd,
}

/// Events of a purchase's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PurchaseEvent {
    #[serde(rename = "saga.started")]
    Started {
        #[serde(flatten)]
        order: Order,
        strategy: Strategy,
    },
    #[serde(rename = "payment.completed")]
    PaymentCompleted { payment: String, amount_micro_usd: MicroUsd },
    #[serde(rename = "payment.failed")]
    PaymentFailed { reason: String },
    #[serde(rename = "payment.refunded")]
    PaymentRefunded { amount_micro_usd: MicroUsd },
    /// `saga.*`
    #[serde(untagged)]
    Saga(SagaEvent<Step>),
}

impl DomainEvent for PurchaseEvent {
    fn priority(&self) -> Option<Priority> {
        match self {
            Self::Started { .. } => None,
            Self::PaymentFailed { .. } => Some(Priority::Critical),
            Self::PaymentCompleted { .. } | Self::PaymentRefunded { .. } => Some(Priority::High),
            Self::Saga(event) => event.priority(),
        }
    }
}

impl From<SagaEvent<Step>> for PurchaseEvent {
    fn from(event: SagaEvent<Step>) -> Self {
        Self::Saga(event)
    }
}

impl PurchaseEvent {
    pub fn saga(&self) -> Option<&SagaEvent<Step>> {
        match self {
            Self::Saga(event) => Some(event),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    pub id: PurchaseId,
    #[serde(flatten)]
    pub order: Order,
    /// The payment service's id of the payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    #[serde(flatten)]
    pub progress: Progress<Step>,
    pub head: Head,
}

impl Purchase {
    pub fn new(id: PurchaseId, order: Order, strategy: Strategy, at: Timestamp) -> Self {
        let progress = Progress::new(strategy, at);
        Self { id, order, payment: None, progress, head: Head::default() }
    }

    /// The purchase after `event`; `None` only if the trail does not start with [`PurchaseEvent::Started`],
    /// or contains it twice.
    pub fn apply(
        before: Option<&Self>,
        id: &PurchaseId,
        event: &PurchaseEvent,
        at: Timestamp,
    ) -> Option<Self> {
        let Some(before) = before else {
            let PurchaseEvent::Started { order, strategy } = event else { return None };
            return Some(Self::new(id.clone(), order.clone(), *strategy, at));
        };
        let mut next = before.clone();
        match event {
            PurchaseEvent::Started { .. } => return None,
            PurchaseEvent::PaymentCompleted { payment, .. } => next.payment = Some(payment.clone()),
            PurchaseEvent::PaymentFailed { .. } | PurchaseEvent::PaymentRefunded { .. } => {}
            PurchaseEvent::Saga(event) => next.progress.apply(event, at),
        }
        Some(next)
    }

    /// Events of the saga together with what they say about the payment; `payment` is the payment service's
    /// id, if it was taken just now.
    pub fn with_payment(
        &self,
        events: Vec<SagaEvent<Step>>,
        mut payment: Option<String>,
    ) -> Vec<PurchaseEvent> {
        let amount_micro_usd = self.order.price_micro_usd;
        let mut all = Vec::new();
        for event in events {
            let about_payment = match &event {
                SagaEvent::StepDone { step: Step::TakePayment } => payment
                    .take()
                    .map(|payment| PurchaseEvent::PaymentCompleted { payment, amount_micro_usd }),
                SagaEvent::StepFailed { step: Step::TakePayment, reason, again: None, .. } => {
                    Some(PurchaseEvent::PaymentFailed { reason: reason.clone() })
                }
                SagaEvent::UndoDone { step: Step::TakePayment } if self.payment.is_some() => {
                    Some(PurchaseEvent::PaymentRefunded { amount_micro_usd })
                }
                _ => None,
            };
            all.extend(about_payment);
            all.push(event.into());
        }
        all
    }

    /// The steps whose credits the account releases when an operator resolves the purchase. Credits that
    /// are in the balance stay there.
    pub fn steps_to_release(&self) -> &'static [Step] {
        if self.progress.is_in_effect(Step::Enter) {
            &[]
        } else if self.progress.is_in_effect(Step::Allocate) {
            &[Step::Allocate, Step::Reserve]
        } else if self.progress.is_in_effect(Step::Reserve) {
            &[Step::Reserve]
        } else {
            &[]
        }
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

#[cfg(test)]
#[path = "purchase_tests.rs"]
mod tests;
