//! The plan: which pages go to AI, at what cost, and whether a person has to approve it.

pub mod context;
pub mod decide;
pub mod propose;
pub mod route;
