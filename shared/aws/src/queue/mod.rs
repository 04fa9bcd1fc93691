//! Lanes as SQS queues. Lambda receives the messages itself; `receive` is for redriving and for
//! workers outside of Lambda.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_sqs::{
    Client,
    error::ProvideErrorMetadata,
    types::{Message, MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry},
};
use everypage_core::{
    digest::sha256_hex,
    ids::Priority,
    job::message::PartialMessage,
    ports::{
        Fault,
        queue::{Delivery, Outgoing, Queue, Receipt},
    },
};
use tracing::warn;

use crate::fault::fault;

const SERVICE: &str = "SQS";
/// How soon a message that waits looks again: delayed messages can't be woken.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest delay of a message in SQS.
const MAX_SQS_DELAY: Duration = Duration::from_secs(900);
/// SQS's limits for one call.
const MESSAGES_PER_CALL: usize = 10;
const BYTES_PER_CALL: usize = 1 << 20;
/// SQS's limit for the name of a message group.
const MAX_GROUP_BYTES: usize = 128;
const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 60 * 60);
/// Entries that SQS rejected in a successful call mostly succeed on the second try.
const MAX_TRIES_PER_ENTRY: usize = 3;
/// Every fifth receive starts with one of the lower lanes, in rotation: none starves.
const FAIR_RECEIVE_INTERVAL: usize = 5;

pub struct SqsQueue {
    client: Client,
    urls: HashMap<Priority, String>,
    /// One per distinct queue, the highest lane first.
    lanes: Vec<Lane>,
    /// The lanes' dead-letter queues. Only SQS sends messages there: it can't redrive a queue with a
    /// message of unknown source (`CouldNotDetermineMessageSource`).
    dead_letter_queues: Vec<Lane>,
    receives: AtomicUsize,
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
    /// Takes one URL per priority; several priorities may share one. A priority without a queue uses the
    /// queue of the next lower one, else of the next higher.
    pub fn new(client: Client, urls: BTreeMap<Priority, String>) -> Result<Self, Fault> {
        let nearest = |wanted: Priority| {
            let lower = urls.range(..=wanted).next_back();
            lower.or_else(|| urls.range(wanted..).next()).map(|(_, url)| url.clone())
        };
        let all: Option<HashMap<_, _>> =
            Priority::ALL.into_iter().map(|priority| Some((priority, nearest(priority)?))).collect();
        let all = all.ok_or_else(|| {
            Fault::broken(SERVICE, "no queue is configured: set QUEUE_URL_NORMAL or another lane's URL")
        })?;
        let mut lanes: Vec<Lane> = Vec::new();
        for priority in Priority::ALL.into_iter().rev() {
            let url = &all[&priority];
            if lanes.iter().all(|lane| lane.url != *url) {
                lanes.push(Lane::new(url, priority));
            }
        }
        Ok(Self { client, urls: all, lanes, dead_letter_queues: vec![], receives: AtomicUsize::new(0) })
    }

    /// Adds the dead-letter queues of the lanes.
    pub fn with_dead_letter_queues(mut self, urls: &BTreeMap<Priority, String>) -> Self {
        self.dead_letter_queues = urls.iter().map(|(priority, url)| Lane::new(url, *priority)).collect();
        self
    }

    /// The lane whose queue has this ARN; the lowest when none has.
    pub fn lane_of(&self, queue_arn: &str) -> Priority {
        let name = queue_arn.rsplit(':').next().unwrap_or_default();
        self.lanes.iter().find(|lane| lane.name == name).map_or(Priority::Low, |lane| lane.priority)
    }

    /// The receipt of a message that Lambda received from the queue with this ARN.
    pub fn receipt(queue_arn: &str, handle: &str) -> Receipt {
        Receipt(format!("{}/{handle}", queue_arn.rsplit(':').next().unwrap_or_default()))
    }

    /// Splits a receipt into the queue's URL and SQS's receipt handle. Queue names have no slash.
    fn parts<'a>(&'a self, receipt: &'a Receipt) -> Result<(&'a str, &'a str), Fault> {
        let unknown = || Fault::broken(SERVICE, "the receipt is of an unknown queue");
        let (name, handle) = receipt.0.split_once('/').ok_or_else(unknown)?;
        let mut lanes = self.lanes.iter().chain(&self.dead_letter_queues);
        let lane = lanes.find(|lane| lane.name == name).ok_or_else(unknown)?;
        Ok((&lane.url, handle))
    }

    /// The order in which the next receive polls the lanes.
    fn order(&self) -> Vec<Lane> {
        let receive = self.receives.fetch_add(1, Ordering::Relaxed) + 1;
        let mut lanes = self.lanes.clone();
        if receive.is_multiple_of(FAIR_RECEIVE_INTERVAL) && lanes.len() > 1 {
            // The highest lane is first otherwise; the others rotate from the lowest up.
            let lower = lanes.len() - 1;
            let chosen = lanes.remove(lower - (receive / FAIR_RECEIVE_INTERVAL - 1) % lower);
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
        let response = call.send().await.map_err(|error| fault(SERVICE, error))?;
        Ok(response.messages.unwrap_or_default().into_iter().map(|message| delivery(lane, message)).collect())
    }

    /// Messages that wait, that are delayed or that are being worked on, about.
    async fn about_depth(&self, lane: &Lane) -> Result<u64, Fault> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages as Waiting, ApproximateNumberOfMessagesDelayed as Delayed,
            ApproximateNumberOfMessagesNotVisible as Received,
        };
        let names = [Waiting, Delayed, Received];
        let call = self.client.get_queue_attributes().queue_url(&lane.url);
        let call = call.set_attribute_names(Some(names.to_vec()));
        let found = call.send().await.map_err(|error| fault(SERVICE, error))?.attributes.unwrap_or_default();
        Ok(names.iter().filter_map(|name| found.get(name)?.parse::<u64>().ok()).sum())
    }

    async fn send_batch(&self, url: &str, batch: &[&Outgoing]) -> Result<(), Fault> {
        let mut unsent: Vec<usize> = (0..batch.len()).collect();
        let mut reason = String::new();
        for _ in 0..MAX_TRIES_PER_ENTRY {
            let entries = unsent.iter().map(|index| {
                let body = printable(&batch[*index].body);
                let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
                let entry = entry.set_message_group_id(tenant_group(&body)).message_body(body);
                entry.delay_seconds(seconds(batch[*index].delay.min(MAX_SQS_DELAY))).build()
            });
            let entries: Result<Vec<_>, _> = entries.collect();
            let entries = entries.map_err(|error| Fault::broken(SERVICE, error))?;
            let call = self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send();
            let failed = call.await.map_err(|error| fault(SERVICE, error))?.failed;
            let Some(first) = failed.first() else { return Ok(()) };
            reason = format!("{} {}", first.code(), first.message().unwrap_or_default());
            if let Some(invalid) = failed.iter().find(|entry| entry.sender_fault()) {
                let detail = format!("{} {}", invalid.code(), invalid.message().unwrap_or_default());
                return Err(Fault::broken(SERVICE, detail));
            }
            unsent = failed.iter().filter_map(|entry| entry.id().parse().ok()).collect();
        }
        // Other entries of the call were sent, so this is not `Throttled`.
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

/// The visibility in whole seconds, rounded up, as SQS takes it.
fn seconds(visibility: Duration) -> i32 {
    let visibility = visibility.min(MAX_VISIBILITY);
    visibility.as_secs() as i32 + i32::from(visibility.subsec_nanos() > 0)
}

/// Escapes two characters that SQS rejects and a PDF may contain. Bodies are JSON, so the escapes are
/// equivalent.
fn printable(body: &str) -> String {
    body.replace('\u{FFFE}', "\\ufffe").replace('\u{FFFF}', "\\uffff")
}

/// The group of a message in a fair queue: its tenant. A tenant with many messages then delays its own, and the
/// others of the lane keep their turn.
fn tenant_group(body: &str) -> Option<String> {
    let tenant = PartialMessage::of(body).tenant?;
    let is_valid = tenant.as_str().len() <= MAX_GROUP_BYTES
        && tenant.as_str().bytes().all(|byte| byte.is_ascii_graphic());
    Some(if is_valid { tenant.to_string() } else { sha256_hex(tenant.as_str().as_bytes()) })
}

/// Splits messages, in order, into batches within SQS's limits for one call.
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

/// Whether an error means that the receipt has expired.
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
                format!("message {} has {} bytes; the limit is 1 MiB", message.name, message.body.len());
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
                let limit = (max - received.len()).min(MESSAGES_PER_CALL);
                match self.receive_from(&lane, limit, visibility).await {
                    Ok(found) => {
                        let is_lane_empty = found.len() < limit;
                        received.extend(found);
                        if is_lane_empty {
                            break;
                        }
                    }
                    // Messages received so far are hidden from other consumers: return them.
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

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        let mut received = Vec::new();
        for lane in &self.dead_letter_queues {
            if received.len() < max {
                received.extend(self.receive_from(lane, max - received.len(), visibility).await?);
            }
        }
        Ok(received)
    }

    /// SQS can't: delayed messages look again by themselves, soon.
    async fn wake(&self) -> Result<bool, Fault> {
        Ok(false)
    }

    fn max_delay(&self) -> Duration {
        RECHECK_INTERVAL
    }

    /// Always empty: SQS publishes the depths to CloudWatch itself.
    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        Ok(vec![])
    }

    async fn about_depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        let lanes =
            self.lanes.iter().map(|lane| async move { Ok((lane.priority, self.about_depth(lane).await?)) });
        futures::future::try_join_all(lanes).await
    }
}

#[cfg(test)]
mod tests;
