//! Ports over plain memory, each a complete implementation that sits the same exam as the others.

mod blobs;
mod flow;
mod others;
mod payments;
mod queue;
mod records;

pub use blobs::MemoryBlobs;
pub use flow::MemoryFlow;
pub use others::{PlainVault, RecordingBus, RecordingHooks, RecordingNotifier, RecordingTraces};
pub use payments::{MemoryPayments, Mood};
pub use queue::MemoryQueue;
pub use records::MemoryRecords;
