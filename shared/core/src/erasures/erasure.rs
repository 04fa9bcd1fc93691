//! The erasure of a tenant: a saga of steps that can't be undone.
//!
//! ```text
//! (closed) ─▶ keys ─▶ webhooks ─▶ jobs ─▶ uploads ─▶ notices ─▶ account ─▶ settings ─▶ record ─▶ COMPLETED
//! ```
//!
//! With its first event the tenant is closed: what comes in is refused, so that each step leaves less. The
//! last step records the erasure in the tenant's own trail and opens the name again, in one batch. The record
//! and its trail are kept: they hold names, times and numbers.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Aggregate, DomainEvent, Event, Head, decode},
    ids::{ErasureId, Priority, TenantId},
    sagas::{
        definition::{Definition, Forward, SagaStep, StepSpec},
        progress::{Progress, SagaEvent},
    },
    settings::Strategy,
};

/// A step of an erasure. Who can reach the data goes first, what is needed to find the data goes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Step {
    /// Revokes the API keys.
    Keys,
    /// Removes webhooks and what waits to be sent to them.
    Webhooks,
    /// Cancels and deletes the jobs, with everything of them.
    Jobs,
    /// Deletes uploads that have not become jobs, and what remembers requests.
    Uploads,
    /// Deletes notices and the messages of dead letters.
    Notices,
    /// Takes the credits off the balance and deletes payment methods.
    Account,
    /// Deletes settings and budgets.
    Settings,
    /// Looks once more, records the erasure and opens the tenant.
    Record,
}

impl SagaStep for Step {
    fn definition() -> &'static Definition<Self> {
        const fn forward(step: Step) -> StepSpec<Step> {
            StepSpec { step, undone: None, is_kept: false, is_external: false }
        }
        static ERASURE: Definition<Step> = Definition {
            kind: "erasure",
            noun: "an erasure",
            steps: &[
                forward(Step::Keys),
                forward(Step::Webhooks),
                forward(Step::Jobs),
                forward(Step::Uploads),
                forward(Step::Notices),
                forward(Step::Account),
                forward(Step::Settings),
                forward(Step::Record),
            ],
            step_timeout: Duration::from_secs(120),
            forward: Forward { max_tries: 20, pause: Duration::from_secs(300) },
            kept: "",
        };
        &ERASURE
    }

    fn name(self) -> &'static str {
        self.into()
    }
}

/// Events of an erasure's trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum ErasureEvent {
    /// From here on the tenant is closed.
    #[serde(rename = "saga.started")]
    Started { tenant: TenantId, by: String, acts_before: u64 },
    /// `saga.*`
    #[serde(untagged)]
    Saga(SagaEvent<Step>),
}

impl DomainEvent for ErasureEvent {
    fn priority(&self) -> Option<Priority> {
        match self {
            Self::Started { .. } => None,
            Self::Saga(event) => event.priority(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    pub id: ErasureId,
    pub tenant: TenantId,
    pub by: String,
    /// How many events the tenant's trail had when the tenant was closed.
    pub acts_before: u64,
    #[serde(flatten)]
    pub progress: Progress<Step>,
    pub head: Head,
}

impl Erasure {
    /// The erasure after `event`; `None` if the trail does not start with [`ErasureEvent::Started`], once.
    pub fn apply(before: Option<&Self>, id: &ErasureId, event: &ErasureEvent, at: Timestamp) -> Option<Self> {
        match (before, event) {
            (None, ErasureEvent::Started { tenant, by, acts_before }) => Some(Self {
                id: id.clone(),
                tenant: tenant.clone(),
                by: by.clone(),
                acts_before: *acts_before,
                progress: Progress::new(Strategy::Forward, at),
                head: Head::default(),
            }),
            (Some(before), ErasureEvent::Saga(event)) => {
                let mut next = before.clone();
                next.progress.apply(event, at);
                Some(next)
            }
            _ => None,
        }
    }

    /// Rebuilds an erasure from its trail alone.
    pub fn replay(events: &[Event]) -> Result<Option<Self>, String> {
        let mut erasure: Option<Self> = None;
        for event in events {
            let Aggregate::Erasure(id) = &event.aggregate else {
                return Err(format!("event {} belongs to {}", event.id, event.aggregate));
            };
            let typed = decode(event).map_err(|error| format!("event {}: {error}", event.id))?;
            let next = Self::apply(erasure.as_ref(), id, &typed, event.timestamp);
            let mut next =
                next.ok_or_else(|| format!("event {} does not follow the one before it", event.id))?;
            next.head = Head::of(event);
            erasure = Some(next);
        }
        Ok(erasure)
    }
}
