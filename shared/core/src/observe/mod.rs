//! Figures about jobs and gauges of what waits, for dashboards and the console.

pub mod figures;
pub mod measure;
