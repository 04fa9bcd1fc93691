//! What a job is: its states, options, events and records, and the page messages that it sends out.

pub mod cancel;
pub mod credits;
mod event;
mod holds;
mod interrupts;
pub mod jobs;
mod lifecycle;
pub mod message;
mod options;
pub mod passwords;
mod plan;
pub mod selection;
pub mod state;
mod step;
pub(crate) mod telemetry;

pub use event::*;
pub use interrupts::Interrupts;
pub use lifecycle::*;
pub use options::*;
pub use plan::*;
pub use selection::PageSelection;
pub use state::*;
pub use step::*;
