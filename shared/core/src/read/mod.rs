//! One page message, from delivery to settled page: claim, rounds over the models (breaker, pace, slot, call,
//! hedge), outcome.
//!
//! | about | files |
//! | --- | --- |
//! | the message and its page | `dispatch`, `page_task`, `pages`, `send`, `report`, `give_up`, `revive`, `countdown(s)` |
//! | one round over the models | `round`, `call`, `hedged_call`, `answer`, `reference`, `words`, `outcome` |
//! | when the next round comes | `patience`, `waiting`, `backlog`, `throughput` |
//! | breakers and pace | `breaker(s)`, `pace(s)`, `quota`, `slot(s)` |
//! | time | `budget`, `latency`, `observed`, `hedge(s)` |
//! | money | `expense(s)`, `funds`, `flex` |

pub mod answer;
pub mod backlog;
pub mod breaker;
pub mod breakers;
pub mod budget;
mod call;
pub mod countdown;
pub mod countdowns;
pub mod dispatch;
pub mod expense;
pub mod expenses;
mod flex;
mod funds;
pub mod give_up;
pub mod hedge;
mod hedged_call;
pub mod hedges;
pub mod invariants;
pub mod latency;
mod observed;
pub mod outcome;
pub mod pace;
pub mod paces;
mod page_task;
pub mod pages;
pub mod patience;
pub mod quota;
pub mod reference;
mod report;
pub mod revive;
mod round;
pub mod send;
pub mod slot;
pub mod slots;
pub(crate) mod telemetry;
pub mod throughput;
pub mod waiting;
pub mod words;

use std::sync::Arc;

use async_trait::async_trait;
use backlog::Backlog;
use breakers::Breakers;
use hedges::Hedges;
use paces::Paces;
use slots::Slots;

use crate::{
    dead_letters::DeadLetters,
    events::Store,
    ids::JobId,
    job::{Interrupts, StepError},
    ports::{blobs::Blobs, flow::Flow, queue::Queue, vision::Vision},
    prepare::Preparer,
    settings::Settings,
    tenants::Tenants,
};

/// The ports and settings with which a page is read.
#[derive(Clone)]
pub struct PageReader {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub vision: Arc<dyn Vision>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub dead_letters: DeadLetters,
    pub breakers: Breakers,
    pub paces: Paces,
    pub slots: Slots,
    pub hedges: Hedges,
    pub backlog: Backlog,
    pub interrupts: Interrupts,
    pub late_pages: Arc<dyn LatePages>,
    /// Renders a page once more; a worker on AWS has no parser.
    pub preparer: Preparer,
}

impl PageReader {
    /// Calls that may be in flight to all models of the settings together.
    pub async fn max_calls(&self) -> usize {
        let mut calls = 0;
        let targets: Vec<_> = self.settings.failover_order().targets().into_iter().collect();
        self.paces.refresh(&targets).await;
        for target in targets {
            calls += self.paces.limit(&target).await as usize;
        }
        calls
    }
}

/// What happens to pages that were settled after their job's result was published.
#[async_trait]
pub trait LatePages: Send + Sync {
    /// Publishes a version of the result that has them. A job whose result can't be healed is left as it is.
    async fn publish(&self, job: &JobId) -> Result<(), StepError>;
}
