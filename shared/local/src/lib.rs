//! Everypage on one machine: SQLite and a folder, queue and flow inside the process.
//!
//! Durable: kill the process at any moment, start it again, and every accepted job goes on.

mod blobs;
mod bus;
mod database;
mod driver;
mod engine;
mod flow;
mod notifier;
mod owner;
mod queue;
mod records;
mod vault;

pub use blobs::FolderBlobs;
pub use bus::LocalBus;
pub use database::Database;
pub use driver::Driver;
pub use engine::{DrivenBy, Engine, OpenError};
pub use flow::LocalFlow;
pub use notifier::LogNotifier;
pub use queue::SqliteQueue;
pub use records::SqliteRecords;
pub use vault::FileVault;
