//! The AWS backend: DynamoDB, S3, SQS, Step Functions, EventBridge, SNS and KMS behind the core's
//! ports.
//!
//! The SDK's own retries are off: the core retries, and it must see a lost response to distinguish
//! its own write from another's. Only throttled calls to the table are retried here (`unthrottled`). [`fault::fault`] classifies all SDK errors.

mod blobs;
mod bus;
mod clients;
mod discovery;
mod downloads;
pub mod fault;
mod flow;
mod foreign;
mod notifier;
mod queue;
mod records;
mod resources;
mod secrets;
mod signer;
mod stack;
#[cfg(test)]
mod test_clients;
mod unthrottled;
mod vault;

pub use blobs::{S3Blobs, UploadedObject};
pub use bus::EventBridgeBus;
pub use clients::Clients;
pub use discovery::discover;
pub use flow::{JOB_CHANGED, MANY_RANGES, SfnFlow, wait_until};
pub use foreign::Copied;
pub use notifier::SnsNotifier;
pub use queue::SqsQueue;
pub use records::DynamoRecords;
pub use resources::{StackResources, VARIABLES, queue_variable};
pub use signer::SigV4;
pub use stack::{Stack, StackError};
pub use vault::KmsVault;
