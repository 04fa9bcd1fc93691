//! One page message, from delivery to settled page: claim, round, breaker, slots, outcome.

pub mod answer;
pub mod breaker;
pub mod breakers;
pub mod budget;
pub mod dispatch;
pub mod give_up;
pub mod invariants;
pub mod outcome;
mod page_task;
pub mod pages;
pub mod revive;
pub mod slot;
pub mod slots;
pub(crate) mod telemetry;

use std::sync::Arc;

use async_trait::async_trait;
use breakers::Breakers;
use slots::Slots;

use crate::{
    dead_letters::DeadLetters,
    events::Store,
    ids::JobId,
    job::{Interrupts, StepError},
    ports::{blobs::Blobs, flow::Flow, notifier::Notifier, queue::Queue, vision::Vision},
    settings::Settings,
    tenants::Tenants,
};

/// What reading a page needs.
#[derive(Clone)]
pub struct PageReader {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub vision: Arc<dyn Vision>,
    pub notifier: Arc<dyn Notifier>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub dead_letters: DeadLetters,
    pub breakers: Breakers,
    pub slots: Slots,
    pub interrupts: Interrupts,
    pub late_pages: Arc<dyn LatePages>,
}

/// What happens to pages that were settled after their job's result was published.
#[async_trait]
pub trait LatePages: Send + Sync {
    /// Publishes a version of the result that has them. A job whose result can't be healed is left as it is.
    async fn publish(&self, job: &JobId) -> Result<(), StepError>;
}
