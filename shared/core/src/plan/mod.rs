//! Plans which pages go to AI, at what cost, and whether a person has to approve it.

pub mod context;
pub mod decide;
pub mod propose;
pub mod route;

use std::sync::Arc;

use crate::{
    admission::Admission,
    events::Store,
    ports::{blobs::Blobs, flow::Flow, vision::Vision},
    settings::Settings,
    tenants::Tenants,
};

/// The ports and settings with which a plan is made.
#[derive(Clone)]
pub struct Planner {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub flow: Arc<dyn Flow>,
    pub vision: Arc<dyn Vision>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
    pub admission: Admission,
}
