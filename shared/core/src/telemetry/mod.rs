//! Metrics and spans: every name that is recorded, defined once.

pub mod metrics;
pub mod spans;
