//! A queue subscribed to the stack's topic: receives the notices that a person would get.

use std::{sync::Mutex, time::Duration};

use everypage_aws::Clients;
use serde_json::Value;

use crate::{deployed_stack::REGION, test_backend::until};

pub struct Inbox {
    clients: Clients,
    url: String,
    seen: Mutex<Vec<Value>>,
}

impl Inbox {
    /// Receives every notice from now on.
    pub async fn of_topic(clients: &Clients, topic: &str) -> Self {
        let made = clients.sqs.create_queue().queue_name("inbox").send().await.unwrap();
        let arn = format!("arn:aws:sqs:{REGION}:000000000000:inbox");
        clients.sns.subscribe().topic_arn(topic).protocol("sqs").endpoint(arn).send().await.unwrap();
        Self { clients: clients.clone(), url: made.queue_url.unwrap(), seen: Mutex::default() }
    }

    /// Waits for the first notice that is `wanted`.
    pub async fn notice(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        until(what, Duration::from_secs(60), async || {
            let more = received(&self.clients, &self.url).await;
            let mut seen = self.seen.lock().unwrap();
            seen.extend(more);
            seen.iter().find(|notice| wanted(notice)).cloned()
        })
        .await
    }
}

/// Receives and deletes the messages of a queue, as JSON.
pub async fn received(clients: &Clients, url: &str) -> Vec<Value> {
    let call = clients.sqs.receive_message().queue_url(url).max_number_of_messages(10);
    let messages = call.send().await.unwrap().messages.unwrap_or_default();
    for message in &messages {
        let receipt = message.receipt_handle().unwrap();
        clients.sqs.delete_message().queue_url(url).receipt_handle(receipt).send().await.unwrap();
    }
    messages.iter().map(|message| serde_json::from_str(message.body().unwrap()).unwrap()).collect()
}
