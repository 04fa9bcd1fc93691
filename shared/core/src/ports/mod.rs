//! The interfaces that backends implement. Their docs state the guarantees that the core relies on,
//! and every adapter must keep all of them. Expected outcomes are values; `Err` means that the call
//! itself failed.

pub mod blobs;
pub mod bus;
pub mod clock;
pub mod downloads;
mod fault;
pub mod flow;
pub mod hooks;
pub mod ids;
pub mod notifier;
pub mod ocr;
pub mod payments;
pub mod pdf;
pub mod queue;
pub mod records;
pub mod signer;
pub mod traces;
pub mod uploads;
pub mod vault;
pub mod vision;

pub use fault::{Fault, Next};
