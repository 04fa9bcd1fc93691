//! The local backend: records and queue in SQLite, blobs in a folder, the flow inside the process.
//!
//! Durable: kill the process at any moment, start it again, and every accepted job continues.

mod backend;
mod blobs;
mod bus;
mod database;
mod driver;
mod flow;
mod liveness;
mod notifier;
mod queue;
mod recognize;
mod records;
mod vault;

pub use backend::{DrivenBy, LocalBackend, OpenError};
pub use blobs::FolderBlobs;
pub use bus::LocalBus;
pub use database::Database;
pub use driver::Driver;
pub use flow::LocalFlow;
pub use notifier::LogNotifier;
pub use queue::SqliteQueue;
pub use records::SqliteRecords;
pub use vault::FileVault;
