//! Parsing in child processes, so that no file can crash this one.

mod command;
mod failures;
pub(crate) mod frame;
mod pool;
mod port;
mod process;
mod reader;
pub(crate) mod wire;

pub use command::ChildCommand;
pub use failures::ChildFailures;
pub use port::IsolatedPdf;
