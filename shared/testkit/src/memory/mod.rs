//! Ports in memory, each a complete implementation that runs the same conformance suite as the others.

mod blobs;
mod flow;
mod payments;
mod queue;
mod recording;
mod records;
mod vault;

pub use blobs::MemoryBlobs;
pub use flow::MemoryFlow;
pub use payments::{MemoryPayments, PaymentBehaviour};
pub use queue::MemoryQueue;
pub use recording::{RecordingBus, RecordingHooks, RecordingNotifier, RecordingTraces};
pub use records::MemoryRecords;
pub use vault::PlainVault;
