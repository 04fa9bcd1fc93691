//! Getting lost or failed work going again: redrive and sweep.

pub mod redrive;
pub mod sweep;
