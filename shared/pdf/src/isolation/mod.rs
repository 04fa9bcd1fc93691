//! Parsing in child processes, so that no file can crash this one.

mod command;
mod failed_drawings;
mod failures;
pub(crate) mod frame;
mod lane;
mod pool;
mod port;
mod process;
mod reader;
mod slots;
mod turns;
pub(crate) mod wire;

pub use command::ChildCommand;
pub use failures::ChildFailures;
pub use port::IsolatedPdf;
