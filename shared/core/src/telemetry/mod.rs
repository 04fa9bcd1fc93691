//! Metrics, each defined once, and how spans are opened and nest. The names and attributes of spans are in the
//! `telemetry.rs` of the room whose work they measure, or next to that work.

pub mod metrics;
pub mod spans;
