//! Recovery of lost or failed work: redrive and sweep.

pub mod backfill;
pub mod redrive;
pub mod sweep;

use std::sync::Arc;

use crate::{
    admission::Admission,
    billing::Billing,
    dead_letters::DeadLetters,
    events::Store,
    finish::{Finisher, erase::Eraser},
    notices::Notices,
    notify::Publisher,
    ports::{blobs::Blobs, flow::Flow, queue::Queue, vault::Vault},
    read::PageReader,
    settings::Settings,
};

/// The ports with which jobs are redriven and swept.
#[derive(Clone)]
pub struct Recovery {
    pub store: Store,
    pub admission: Admission,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub flow: Arc<dyn Flow>,
    pub vault: Arc<dyn Vault>,
    pub settings: Arc<Settings>,
    pub billing: Billing,
    pub eraser: Eraser,
    pub notices: Notices,
    pub dead_letters: DeadLetters,
    pub reader: PageReader,
    pub finisher: Finisher,
    pub publisher: Publisher,
}
