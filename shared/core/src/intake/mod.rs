//! Accepts documents: a request or an uploaded object becomes a durable job.

pub mod accept;
pub mod announce;
pub mod find;
pub mod options;
pub mod submit;
pub mod uploads;

use std::sync::Arc;

use crate::{
    admission::Admission,
    events::Store,
    ports::{blobs::Blobs, vault::Vault},
    settings::Settings,
    tenants::Tenants,
};

/// The ports and settings with which a document is accepted.
#[derive(Clone)]
pub struct Intake {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub admission: Admission,
    pub vault: Arc<dyn Vault>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
}
