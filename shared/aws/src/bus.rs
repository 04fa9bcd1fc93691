//! The event bus on EventBridge, with the source `everypage`.

use async_trait::async_trait;
use aws_sdk_eventbridge::{Client, primitives::DateTime, types::PutEventsRequestEntry};
use everypage_core::{
    event::Event,
    ports::{Fault, bus::Bus},
};

use crate::fault::fault;

const SERVICE: &str = "EventBridge";
const SOURCE: &str = "everypage";
/// EventBridge's limits for one call.
const EVENTS_PER_CALL: usize = 10;
const BYTES_PER_CALL: usize = 1 << 20;
/// The size that EventBridge counts for an entry's time.
const TIME_BYTES: usize = 14;

pub struct EventBridgeBus {
    client: Client,
    bus: String,
}

impl EventBridgeBus {
    /// `bus` is a name or an ARN.
    pub fn new(client: Client, bus: impl Into<String>) -> Self {
        Self { client, bus: bus.into() }
    }

    fn entry(&self, event: &Event) -> Result<(PutEventsRequestEntry, usize), Fault> {
        let detail = serde_json::to_string(event).map_err(|error| Fault::broken(SERVICE, error))?;
        let resource = event.aggregate.to_string();
        let bytes = TIME_BYTES + SOURCE.len() + event.kind.len() + detail.len() + resource.len();
        if bytes > BYTES_PER_CALL {
            let detail = format!("event {} has {bytes} bytes; the limit is {BYTES_PER_CALL}", event.id);
            return Err(Fault::broken(SERVICE, detail));
        }
        let entry = PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus)
            .source(SOURCE)
            .detail_type(&event.kind)
            .detail(detail)
            .resources(resource)
            .time(DateTime::from_millis(event.timestamp.as_millisecond()));
        Ok((entry.build(), bytes))
    }

    async fn put(&self, entries: Vec<PutEventsRequestEntry>) -> Result<(), Fault> {
        let call = self.client.put_events().set_entries(Some(entries)).send();
        let response = call.await.map_err(|error| fault(SERVICE, error))?;
        match response.entries().iter().find(|entry| entry.error_code().is_some()) {
            None => Ok(()),
            // Other entries of the call were published, so this is not `Throttled`; the relay retries all.
            Some(failed) => {
                let code = failed.error_code().unwrap_or_default();
                Err(Fault::unreachable(
                    SERVICE,
                    format!("{code} {}", failed.error_message().unwrap_or_default()),
                ))
            }
        }
    }
}

#[async_trait]
impl Bus for EventBridgeBus {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        for event in events {
            let (entry, size) = self.entry(event)?;
            if waiting.len() == EVENTS_PER_CALL || bytes + size > BYTES_PER_CALL {
                // Calls are sequential: a later event is never published before one that failed.
                self.put(std::mem::take(&mut waiting)).await?;
                bytes = 0;
            }
            waiting.push(entry);
            bytes += size;
        }
        if waiting.is_empty() { Ok(()) } else { self.put(waiting).await }
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::{
        event::{Aggregate, DomainEvent, Head, Metadata},
        ids::{CorrelationId, EventId, JobId, Priority, TenantId},
    };
    use serde::Serialize;
    use serde_json::Value;

    use super::*;
    use crate::test_clients::{bodies, clients, response};

    #[derive(Serialize)]
    struct Noted {
        #[serde(rename = "type")]
        kind: &'static str,
        data: String,
    }

    impl DomainEvent for Noted {}

    fn events(count: usize, bytes: usize) -> Vec<Event> {
        let metadata = Metadata {
            user_id: None,
            tenant: TenantId::new("t"),
            source: "worker".into(),
            environment: "test".into(),
            trace_id: String::new(),
            span_id: String::new(),
            priority: Priority::Normal,
        };
        let mut head = Head::default();
        (0..count)
            .map(|n| {
                let typed = Noted { kind: "page.settled", data: "x".repeat(bytes) };
                let (event, next) = head.append(
                    Aggregate::Job(JobId::new("j")),
                    EventId::new(n.to_string()),
                    &typed,
                    everypage_testkit::clock::epoch(),
                    CorrelationId::new("c"),
                    metadata.clone(),
                );
                head = next;
                event
            })
            .collect()
    }

    fn done() -> aws_sdk_eventbridge::config::http::HttpResponse {
        response(200, r#"{"FailedEntryCount":0,"Entries":[{"EventId":"e"}]}"#)
    }

    fn sequences(call: &Value) -> Vec<u64> {
        let entries = call["Entries"].as_array().unwrap().iter();
        let detail =
            |entry: &Value| serde_json::from_str::<Event>(entry["Detail"].as_str().unwrap()).unwrap();
        entries.map(|entry| detail(entry).sequence).collect()
    }

    #[tokio::test]
    async fn events_are_published_in_order_in_batches_of_ten() {
        let (clients, sent) = clients(vec![done(), done(), done()]);
        EventBridgeBus::new(clients.eventbridge, "b").publish(&events(21, 1)).await.unwrap();
        let sent: Vec<_> = bodies(&sent).iter().map(sequences).collect();
        assert_eq!(sent.concat(), (1..=21).collect::<Vec<_>>());
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 1]);
    }

    #[tokio::test]
    async fn a_call_stays_under_a_mebibyte() {
        let (clients, sent) = clients(vec![done(), done()]);
        EventBridgeBus::new(clients.eventbridge, "b").publish(&events(4, 400_000)).await.unwrap();
        assert_eq!(bodies(&sent).iter().map(|call| sequences(call).len()).collect::<Vec<_>>(), [2, 2]);
    }

    #[tokio::test]
    async fn an_entry_that_failed_stops_the_calls_after_it() {
        let failed =
            r#"{"FailedEntryCount":1,"Entries":[{"EventId":"e"},{"ErrorCode":"ThrottlingException"}]}"#;
        let (clients, sent) = clients(vec![response(200, failed), done()]);
        let bus = EventBridgeBus::new(clients.eventbridge, "b");
        let fault = bus.publish(&events(12, 1)).await.unwrap_err();
        assert!(matches!(fault, Fault::Unreachable { .. }));
        assert_eq!(bodies(&sent).len(), 1);
        bus.publish(&[]).await.unwrap();
        assert_eq!(bodies(&sent).len(), 1);
    }
}
