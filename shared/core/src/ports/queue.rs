//! The queue of page messages: SQS on AWS, a table on one machine.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::{JobId, Priority},
    ports::Fault,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Identifies the work: a queue may drop a message while another with the same name is waiting.
    pub name: String,
    /// The job of the page; a queue may deliver its messages only to the processes that drive it.
    pub job: JobId,
    pub lane: Priority,
    pub body: String,
    /// The message becomes visible after this time.
    pub delay: Duration,
}

/// Identifies one delivery of a message; invalid once its visibility timeout has expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Identifies the message; equal at all its deliveries.
    pub id: String,
    pub receipt: Receipt,
    pub lane: Priority,
    pub body: String,
    /// 1 at the first delivery.
    pub receive_count: u32,
}

/// Delivery is at least once, without a guaranteed order within a lane. A message that is neither
/// deleted nor extended is delivered again when its visibility timeout expires.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends messages; they are durable when this returns. If it fails, each message may or may not
    /// have been sent.
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault>;

    /// Receives up to `max` visible messages, higher lanes first without starving lower ones, and
    /// hides them from other receivers for `visibility`.
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault>;

    /// Hides a received message for `visibility` from now; zero makes it visible immediately.
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault>;

    /// Ends the work on a received message, which is delivered again after `delay`.
    async fn put_back(&self, receipt: &Receipt, delay: Duration) -> Result<(), Fault> {
        self.extend(receipt, delay).await
    }

    /// Deletes a received message. An expired receipt is no error and deletes nothing.
    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault>;

    /// Receives messages that the queue itself gave up after too many deliveries, if it stores them
    /// as an SQS dead-letter queue does. They stay there until deleted, hidden from other receivers
    /// for `visibility`.
    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault>;

    /// Makes delayed messages visible now, because what they wait for may have happened. Returns false,
    /// and does nothing, if the queue can't: then a message must not be delayed for long.
    async fn wake(&self) -> Result<bool, Fault>;

    /// The longest delay after which a waiting message should look again by itself.
    fn max_delay(&self) -> Duration;

    /// Counts the messages of each lane that are waiting, or received and not deleted; includes empty
    /// lanes. Returns nothing if the queue reports its own metrics, as SQS does.
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault>;

    /// Counts about the same for a queue that reports its own metrics, in one request per lane; returns nothing
    /// for others.
    async fn about_depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        Ok(vec![])
    }
}
