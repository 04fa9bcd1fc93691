//! Acceptance: a request or an uploaded object becomes a durable job.

pub mod options;
pub mod submit;
pub mod upload;
pub mod uploads;
