//! The end of a job: results and their versions, healing, verification and deletion.

pub mod delete;
pub mod erase;
pub mod finalize;
pub mod format;
pub mod heal;
pub mod healing;
pub mod invariants;
pub mod page_status;
pub mod produce;
pub mod provisional;
pub mod recognize;
pub mod result;
pub mod results;
pub mod retention;
mod text_layer;
pub mod verify;
pub mod verify_aggregate;

use std::sync::Arc;

use crate::{
    admission::Admission,
    events::Store,
    job::Interrupts,
    plan::Planner,
    ports::{blobs::Blobs, queue::Queue},
    prepare::Preparer,
    settings::Settings,
};

/// The ports and settings with which a job is finished.
#[derive(Clone)]
pub struct Finisher {
    pub store: Store,
    pub admission: Admission,
    pub blobs: Arc<dyn Blobs>,
    pub queue: Arc<dyn Queue>,
    pub settings: Arc<Settings>,
    pub preparer: Preparer,
    pub planner: Planner,
    pub interrupts: Interrupts,
}
