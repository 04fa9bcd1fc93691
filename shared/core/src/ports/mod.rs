//! What the core asks of the world. Docs state the guarantees that it relies on; an adapter that
//! can't keep one is not an adapter. Expected outcomes are values; `Err` means that the question
//! went unanswered.

pub mod blobs;
pub mod bus;
pub mod clock;
pub mod downloads;
mod fault;
pub mod flow;
pub mod hooks;
pub mod ids;
pub mod notifier;
pub mod payments;
pub mod pdf;
pub mod queue;
pub mod records;
pub mod traces;
pub mod uploads;
pub mod vault;
pub mod vision;

pub use fault::{Fault, Next};
