//! A queue of the emulator that receives, as JSON, what other services send.

use std::sync::Mutex;

use aws_sdk_sqs::{Client, types::QueueAttributeName};
use everypage_aws::Clients;
use serde_json::Value;

use super::emulator;

/// Receives of one second each, before an expected message counts as lost.
const MAX_RECEIVES: usize = 20;

pub struct Inbox {
    sqs: Client,
    pub url: String,
    pub arn: String,
    seen: Mutex<Vec<Value>>,
}

impl Inbox {
    pub async fn new(clients: &Clients) -> Self {
        let sqs = clients.sqs.clone();
        let made = sqs.create_queue().queue_name(emulator::unique_name("inbox")).send().await.unwrap();
        let url = made.queue_url.unwrap();
        let arn = QueueAttributeName::QueueArn;
        let call = sqs.get_queue_attributes().queue_url(&url).attribute_names(arn.clone());
        let arn = call.send().await.unwrap().attributes.unwrap().remove(&arn).unwrap();
        Self { sqs, url, arn, seen: Mutex::default() }
    }

    /// Returns all messages that match `filter`, and waits for at least `count`.
    pub async fn arrived(&self, count: usize, filter: impl Fn(&Value) -> bool) -> Vec<Value> {
        let found =
            || self.seen.lock().unwrap().iter().filter(|body| filter(body)).cloned().collect::<Vec<_>>();
        for _ in 0..MAX_RECEIVES {
            while self.receive(0).await {}
            if found().len() >= count {
                break;
            }
            self.receive(1).await;
        }
        found()
    }

    /// Receives once; returns whether there were messages.
    async fn receive(&self, wait_seconds: i32) -> bool {
        let call = self.sqs.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let messages =
            call.wait_time_seconds(wait_seconds).send().await.unwrap().messages.unwrap_or_default();
        for message in &messages {
            let body = serde_json::from_str(message.body().unwrap()).unwrap();
            self.seen.lock().unwrap().push(body);
            let receipt = message.receipt_handle().unwrap();
            self.sqs.delete_message().queue_url(&self.url).receipt_handle(receipt).send().await.unwrap();
        }
        !messages.is_empty()
    }

    /// Discards the received messages that match `filter`.
    pub fn discard(&self, filter: impl Fn(&Value) -> bool) {
        self.seen.lock().unwrap().retain(|body| !filter(body));
    }
}
