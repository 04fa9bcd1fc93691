//! A job: its states, options, events and records, and the page messages that it sends out.

mod approval;
pub mod cancel;
pub mod credits;
pub mod end_now;
mod event;
mod holds;
mod interrupts;
pub mod invariants;
pub mod jobs;
mod lifecycle;
pub mod message;
mod metadata;
mod options;
pub mod passwords;
mod plan;
pub mod selection;
mod step;
pub(crate) mod telemetry;

pub use crate::state::*;
pub use event::*;
pub use interrupts::Interrupts;
pub use lifecycle::*;
pub use options::*;
pub use plan::*;
pub use selection::PageSelection;
pub(crate) use step::encode;
pub use step::{StepCode, StepError};
