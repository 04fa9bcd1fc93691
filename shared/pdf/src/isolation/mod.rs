//! Parsing in other processes, so that no file can take this one down.

mod command;
pub(crate) mod frame;
mod losses;
mod pool;
mod port;
mod reader;
pub(crate) mod wire;
mod worker;

pub use command::ChildCommand;
pub use losses::Losses;
pub use port::IsolatedPdf;
