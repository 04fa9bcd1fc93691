//! Conformance of the event bus: EventBridge, with a rule that sends all events of Everypage to an inbox.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_eventbridge::types::Target;
use everypage_aws::EventBridgeBus;
use everypage_core::event::Event;
use everypage_testkit::conformance::bus::{Subject, Subscriber};

use super::{emulator, inbox::Inbox};

struct Rule(Inbox);

#[async_trait]
impl Subscriber for Rule {
    async fn received(&self, count: usize) -> Vec<Event> {
        let envelopes = self.0.arrived(count, |_| true).await;
        envelopes.iter().map(|envelope| serde_json::from_value(envelope["detail"].clone()).unwrap()).collect()
    }
}

everypage_testkit::bus_conformance!(async {
    let clients = emulator::connect().await;
    let inbox = Inbox::new(&clients).await;
    let (eventbridge, bus) = (clients.eventbridge, emulator::unique_name("bus"));
    eventbridge.create_event_bus().name(&bus).send().await.unwrap();
    let rule = eventbridge.put_rule().name("ours").event_bus_name(&bus);
    rule.event_pattern(r#"{"source":["everypage"]}"#).send().await.unwrap();
    let target = Target::builder().id("inbox").arn(&inbox.arn).build().unwrap();
    eventbridge.put_targets().rule("ours").event_bus_name(&bus).targets(target).send().await.unwrap();
    Subject::new(Arc::new(EventBridgeBus::new(eventbridge, bus)), Arc::new(Rule(inbox))).in_any_order()
});
