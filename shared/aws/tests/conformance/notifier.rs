//! Conformance of notices: an SNS topic that an inbox is subscribed to.

use std::sync::Arc;

use async_trait::async_trait;
use everypage_aws::SnsNotifier;
use everypage_core::{ids::TenantId, ports::notifier::Notice};
use everypage_testkit::conformance::notifier::{Recipient, Subject};
use serde_json::Value;

use super::{emulator, inbox::Inbox};

struct Subscriber(Inbox);

#[async_trait]
impl Recipient for Subscriber {
    async fn notices(&self, count: usize) -> Vec<Notice> {
        self.0.arrived(count, |_| true).await.iter().map(notice).collect()
    }
}

fn notice(message: &Value) -> Notice {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let attribute = |name: &str| text(&message["MessageAttributes"][name]["Value"]);
    Notice {
        id: attribute("notice").unwrap(),
        kind: attribute("kind").unwrap().parse().unwrap(),
        tenant: TenantId::new(attribute("tenant").unwrap()),
        responsible: attribute("responsible"),
        subject: text(&message["Subject"]).unwrap_or_default(),
        body: text(&message["Message"]).unwrap(),
    }
}

everypage_testkit::notifier_conformance!(async {
    let clients = emulator::connect().await;
    let inbox = Inbox::new(&clients).await;
    let made = clients.sns.create_topic().name(emulator::unique_name("notices")).send().await.unwrap();
    let topic = made.topic_arn.unwrap();
    let subscription = clients.sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(&inbox.arn);
    subscription.send().await.unwrap();
    Subject::new(Arc::new(SnsNotifier::new(clients.sns, topic)), Arc::new(Subscriber(inbox)))
});
