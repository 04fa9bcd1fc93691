//! The way to the workers: SQS on AWS, a table on one machine.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::{JobId, Priority},
    ports::Fault,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Names the work: a queue may drop a message while another of the same name is waiting.
    pub name: String,
    /// Whose work it is; a queue may deliver a job's messages only to those who drive it.
    pub job: JobId,
    pub lane: Priority,
    pub body: String,
}

/// Proof of having received a message; void once its visibility has run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The same at every delivery of one message.
    pub id: String,
    pub receipt: Receipt,
    pub lane: Priority,
    pub body: String,
    /// 1 at the first delivery.
    pub receive_count: u32,
}

/// At-least-once, in no promised order within a lane. A message that is neither deleted nor
/// extended comes back when its visibility runs out.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Durable when it answers. All of a failed call may or may not have been sent.
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault>;

    /// Up to `max` messages that are visible now, higher lanes first without starving lower ones;
    /// they are hidden from others for `visibility`.
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault>;

    /// Hides a received message for `visibility` from now; zero gives it back at once.
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault>;

    /// Takes a received message off the queue. A void receipt is no error and deletes nothing.
    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault>;

    /// Messages that the queue itself gave up after too many deliveries, where it has a place for them
    /// such as an SQS dead letter queue. They stay there until deleted; they are hidden from others for
    /// `visibility`.
    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault>;

    /// How many messages each lane holds, waiting or received and not deleted; empty lanes included.
    /// Nothing where the queue's own tools measure that, as SQS does.
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault>;
}
