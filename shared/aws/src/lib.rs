//! Everypage on AWS: DynamoDB, S3, SQS, Step Functions, EventBridge, SNS and KMS behind the
//! core's ports.
//!
//! The SDK never retries by itself: the core does, and it must see a lost reply to tell its own
//! write from another's. What goes wrong is sorted in one place, [`fault::fault`].

mod blobs;
mod bus;
mod clients;
pub mod fault;
mod flow;
mod locate;
mod notifier;
mod place;
mod queue;
mod records;
#[cfg(test)]
mod replay;
mod secrets;
mod stack;
mod vault;

pub use blobs::{Found, S3Blobs};
pub use bus::EventBridgeBus;
pub use clients::Clients;
pub use flow::SfnFlow;
pub use locate::locate;
pub use notifier::SnsNotifier;
pub use place::{Place, VARIABLES, queue_variable};
pub use queue::SqsQueue;
pub use records::DynamoRecords;
pub use stack::{Stack, StackError};
pub use vault::KmsVault;
