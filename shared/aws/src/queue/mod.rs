//! Lanes as SQS queues. On AWS, Lambda receives the messages itself; `receive` is for redriving
//! and for workers outside of Lambda.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_sqs::{
    Client,
    error::ProvideErrorMetadata,
    types::{Message, MessageSystemAttributeName, SendMessageBatchRequestEntry},
};
use everypage_core::{
    domain::ids::Priority,
    ports::{
        Fault,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
};
use tracing::warn;

use crate::fault::fault;

const SERVICE: &str = "SQS";
/// SQS's limits for one call.
const MESSAGES_PER_CALL: usize = 10;
const BYTES_PER_CALL: usize = 1 << 20;
const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 60 * 60);
/// Entries that SQS did not take although the call succeeded are mostly taken the second time.
const TRIES_PER_ENTRY: usize = 3;
/// Every so many looks a lower lane goes first, each in its turn: none starves.
const FAIR_TURN: usize = 5;

pub struct SqsQueue {
    client: Client,
    urls: HashMap<Priority, String>,
    /// One per distinct queue, the highest lane first.
    lanes: Vec<Lane>,
    /// The lanes' dead letter queues. Nothing is ever sent there but by SQS itself, which can't redrive
    /// a queue with a message whose lane it does not know (`CouldNotDetermineMessageSource`).
    dead: Vec<Lane>,
    looks: AtomicUsize,
}

#[derive(Clone)]
struct Lane {
    /// The last part of its URL and of its ARN.
    name: String,
    url: String,
    /// The highest of the priorities that share it.
    priority: Priority,
}

impl Lane {
    fn new(url: &str, priority: Priority) -> Self {
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        Self { name, url: url.to_owned(), priority }
    }
}

impl SqsQueue {
    /// One URL per priority; several priorities may share one. A priority without a queue uses
    /// that of the next lower one, else of the next higher.
    pub fn new(client: Client, urls: BTreeMap<Priority, String>) -> Result<Self, Fault> {
        let nearest = |wanted: Priority| {
            let lower = urls.range(..=wanted).next_back();
            lower.or_else(|| urls.range(wanted..).next()).map(|(_, url)| url.clone())
        };
        let all: Option<HashMap<_, _>> =
            Priority::ALL.into_iter().map(|priority| Some((priority, nearest(priority)?))).collect();
        let all = all.ok_or_else(|| Fault::broken(SERVICE, "no queue is configured"))?;
        let mut lanes: Vec<Lane> = Vec::new();
        for priority in Priority::ALL.into_iter().rev() {
            let url = &all[&priority];
            if lanes.iter().all(|lane| lane.url != *url) {
                lanes.push(Lane::new(url, priority));
            }
        }
        Ok(Self { client, urls: all, lanes, dead: vec![], looks: AtomicUsize::new(0) })
    }

    /// With the dead letter queues of its lanes.
    pub fn with_dead_letter_queues(mut self, urls: &BTreeMap<Priority, String>) -> Self {
        self.dead = urls.iter().map(|(priority, url)| Lane::new(url, *priority)).collect();
        self
    }

    /// Where pages of this priority are sent.
    pub fn url_of(&self, lane: Priority) -> &str {
        &self.urls[&lane]
    }

    /// The lane with this ARN; the lowest when it is none of ours.
    pub fn lane_of(&self, queue_arn: &str) -> Priority {
        let name = queue_arn.rsplit(':').next().unwrap_or_default();
        self.lanes.iter().find(|lane| lane.name == name).map_or(Priority::Low, |lane| lane.priority)
    }

    /// The receipt of a message that Lambda received for us from the queue with this ARN.
    pub fn receipt(queue_arn: &str, handle: &str) -> Receipt {
        Receipt(format!("{}/{handle}", queue_arn.rsplit(':').next().unwrap_or_default()))
    }

    /// The queue's URL and SQS's own handle. Queue names have no slash.
    fn parts<'a>(&'a self, receipt: &'a Receipt) -> Result<(&'a str, &'a str), Fault> {
        let unknown = || Fault::broken(SERVICE, "a receipt of none of our queues");
        let (name, handle) = receipt.0.split_once('/').ok_or_else(unknown)?;
        let lane = self.lanes.iter().chain(&self.dead).find(|lane| lane.name == name).ok_or_else(unknown)?;
        Ok((&lane.url, handle))
    }

    /// The lanes in the order of this look.
    fn order(&self) -> Vec<Lane> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let mut lanes = self.lanes.clone();
        if look.is_multiple_of(FAIR_TURN) && lanes.len() > 1 {
            // The highest lane needs no turn; the others take theirs from the lowest up.
            let lower = lanes.len() - 1;
            let chosen = lanes.remove(lower - (look / FAIR_TURN - 1) % lower);
            lanes.insert(0, chosen);
        }
        lanes
    }

    async fn receive_from(
        &self,
        lane: &Lane,
        max: usize,
        visibility: Duration,
    ) -> Result<Vec<Delivery>, Fault> {
        let call = self
            .client
            .receive_message()
            .queue_url(&lane.url)
            .max_number_of_messages(max.min(MESSAGES_PER_CALL) as i32)
            .visibility_timeout(seconds(visibility))
            .wait_time_seconds(0)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = call.send().await.map_err(|error| fault(SERVICE, error))?;
        Ok(answer.messages.unwrap_or_default().into_iter().map(|message| delivery(lane, message)).collect())
    }

    async fn send_batch(&self, url: &str, batch: &[&Outgoing]) -> Result<(), Fault> {
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut reason = String::new();
        for _ in 0..TRIES_PER_ENTRY {
            let entries = left.iter().map(|index| {
                let body = printable(&batch[*index].body);
                SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body).build()
            });
            let entries: Result<Vec<_>, _> = entries.collect();
            let entries = entries.map_err(|error| Fault::broken(SERVICE, error))?;
            let call = self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send();
            let failed = call.await.map_err(|error| fault(SERVICE, error))?.failed;
            let Some(first) = failed.first() else { return Ok(()) };
            reason = format!("{} {}", first.code(), first.message().unwrap_or_default());
            if let Some(ours) = failed.iter().find(|entry| entry.sender_fault()) {
                let detail = format!("{} {}", ours.code(), ours.message().unwrap_or_default());
                return Err(Fault::broken(SERVICE, detail));
            }
            left = failed.iter().filter_map(|entry| entry.id().parse().ok()).collect();
        }
        // Others of the call were sent, so this is not `Throttled`.
        Err(Fault::unreachable(SERVICE, reason))
    }
}

fn delivery(lane: &Lane, message: Message) -> Delivery {
    let count = message
        .attributes()
        .and_then(|attributes| attributes.get(&MessageSystemAttributeName::ApproximateReceiveCount))
        .and_then(|count| count.parse().ok())
        .unwrap_or(1);
    Delivery {
        id: message.message_id.unwrap_or_default(),
        receipt: Receipt(format!("{}/{}", lane.name, message.receipt_handle.unwrap_or_default())),
        lane: lane.priority,
        body: message.body.unwrap_or_default(),
        receive_count: count,
    }
}

/// Whole seconds, as SQS counts; a part of one is one.
fn seconds(visibility: Duration) -> i32 {
    let visibility = visibility.min(MAX_VISIBILITY);
    visibility.as_secs() as i32 + i32::from(visibility.subsec_nanos() > 0)
}

/// SQS refuses two characters that a PDF may hold. Bodies are JSON: there they can be spelt out.
fn printable(body: &str) -> String {
    body.replace('\u{FFFE}', "\\ufffe").replace('\u{FFFF}', "\\uffff")
}

/// Splits into calls that SQS takes, in order.
fn batches<'a>(messages: &[&'a Outgoing]) -> Vec<Vec<&'a Outgoing>> {
    let mut batches: Vec<Vec<&Outgoing>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = printable(&message.body).len();
        match batches.last_mut() {
            Some(batch) if batch.len() < MESSAGES_PER_CALL && bytes + size <= BYTES_PER_CALL => {
                batch.push(message);
                bytes += size;
            }
            _ => {
                batches.push(vec![message]);
                bytes = size;
            }
        }
    }
    batches
}

/// SQS's words for a receipt whose time has run out.
fn is_void(code: Option<&str>, message: Option<&str>) -> bool {
    match code {
        Some(code) if code.ends_with("ReceiptHandleIsInvalid") || code.ends_with("MessageNotInflight") => {
            true
        }
        Some(code)
            if code.ends_with("InvalidParameterValue")
                || code.ends_with("InvalidParameterValueException") =>
        {
            message.is_some_and(|message| {
                message.contains("ReceiptHandle") || message.contains("receipt handle")
            })
        }
        _ => false,
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        if let Some(message) = messages.iter().find(|message| message.body.len() > BYTES_PER_CALL) {
            let detail =
                format!("message {} has {} bytes; SQS takes 1 MiB", message.name, message.body.len());
            return Err(Fault::broken(SERVICE, detail));
        }
        for lane in &self.lanes {
            let of_lane: Vec<&Outgoing> =
                messages.iter().filter(|message| self.urls[&message.lane] == lane.url).collect();
            for batch in batches(&of_lane) {
                self.send_batch(&lane.url, &batch).await?;
            }
        }
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let mut received = Vec::new();
        for lane in self.order() {
            while received.len() < max {
                let asked = (max - received.len()).min(MESSAGES_PER_CALL);
                match self.receive_from(&lane, asked, visibility).await {
                    Ok(found) => {
                        let enough = found.len() < asked;
                        received.extend(found);
                        if enough {
                            break;
                        }
                    }
                    // What was received is hidden from others: it must not be lost to this error.
                    Err(fault) if !received.is_empty() => {
                        warn!(%fault, lane = lane.name, "receiving stopped early");
                        return Ok(received);
                    }
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(received)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        let (url, handle) = self.parts(receipt)?;
        let call = self.client.change_message_visibility().queue_url(url).receipt_handle(handle);
        match call.visibility_timeout(seconds(visibility)).send().await {
            Err(error) if !is_void(error.code(), error.message()) => Err(fault(SERVICE, error)),
            _ => Ok(()),
        }
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        let (url, handle) = self.parts(receipt)?;
        match self.client.delete_message().queue_url(url).receipt_handle(handle).send().await {
            Err(error) if !is_void(error.code(), error.message()) => Err(fault(SERVICE, error)),
            _ => Ok(()),
        }
    }

    async fn receive_dead(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let mut received = Vec::new();
        for lane in &self.dead {
            if received.len() < max {
                received.extend(self.receive_from(lane, max - received.len(), visibility).await?);
            }
        }
        Ok(received)
    }

    /// SQS publishes them itself, every minute.
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        Ok(vec![])
    }
}

#[cfg(test)]
mod tests;
