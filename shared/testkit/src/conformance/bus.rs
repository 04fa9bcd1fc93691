#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use everypage_core::{
    event::{Aggregate, DomainEvent, Event, Head, Metadata},
    ids::{CorrelationId, DeadLetterId, EventId, JobId, PageNumber, Priority, TenantId},
    ports::bus::Bus,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::epoch;

/// A subscriber to the bus since before the first event.
#[async_trait]
pub trait Subscriber: Send + Sync {
    /// Every event received so far, in order of arrival. Waits until there are at least `count`.
    async fn received(&self, count: usize) -> Vec<Event>;
}

pub struct Subject {
    bus: Arc<dyn Bus>,
    subscriber: Arc<dyn Subscriber>,
    keeps_order: bool,
}

impl Subject {
    pub fn new(bus: Arc<dyn Bus>, subscriber: Arc<dyn Subscriber>) -> Self {
        Self { bus, subscriber, keeps_order: true }
    }

    /// For a bus that may deliver events out of order and more than once.
    pub fn in_any_order(self) -> Self {
        Self { keeps_order: false, ..self }
    }

    async fn publish(&self, events: &[Event]) {
        self.bus.publish(events).await.unwrap();
    }

    /// Asserts that exactly these events were received: once and in order, where the bus keeps order.
    async fn assert_received(&self, events: &[Event]) {
        let mut received = self.subscriber.received(events.len()).await;
        let mut events = events.to_vec();
        if !self.keeps_order {
            let place = |event: &Event| (event.aggregate.clone(), event.sequence);
            received.sort_by_key(place);
            received.dedup();
            events.sort_by_key(place);
        }
        assert!(received == events, "{:?}", received.iter().map(|event| &event.id).collect::<Vec<_>>());
    }
}

/// An event with any data.
#[derive(Serialize)]
struct AnyEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    data: &'a Value,
}

impl DomainEvent for AnyEvent<'_> {}

/// A trail of `count` events.
fn trail(aggregate: Aggregate, count: usize, data: &Value) -> Vec<Event> {
    let mut head = Head::default();
    let next = |number| {
        let metadata = Metadata {
            user_id: Some("ann@example.org".into()),
            tenant: TenantId::new("acme"),
            source: "worker".into(),
            environment: "test".into(),
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
            span_id: "00f067aa0ba902b7".into(),
            priority: Priority::Urgent,
        };
        let id = EventId::new(format!("{aggregate} {number}"));
        let typed = AnyEvent { kind: "page.settled", data };
        let now = epoch() + jiff::SignedDuration::from_micros(1_234_567);
        let correlation = CorrelationId::new("c");
        let (event, after) = head.append(aggregate.clone(), id, &typed, now, correlation, metadata);
        head = after;
        event
    };
    (0..count).map(next).collect()
}

fn job() -> Aggregate {
    Aggregate::Job(JobId::new("j"))
}

pub async fn an_event_is_received_as_it_was_stored(subject: &Subject) {
    let data = json!({"text": "ä\n\u{1F511}\"\\", "number": 0.1, "none": null, "list": [[], {}]});
    let events = trail(job(), 1, &data);
    subject.publish(&events).await;
    let received = subject.subscriber.received(1).await;
    assert_eq!(received, events);
    assert!(received[0].matches_hash());
}

pub async fn a_trail_is_received_in_order(subject: &Subject) {
    let events = trail(job(), 7, &json!({}));
    for part in events.chunks(3) {
        subject.publish(part).await;
    }
    subject.assert_received(&events).await;
}

pub async fn every_kind_of_trail_is_received(subject: &Subject) {
    let trails = [
        job(),
        Aggregate::Page(JobId::new("j"), PageNumber::new(17).unwrap()),
        Aggregate::Breaker("openai:*".into()),
        Aggregate::DeadLetter(DeadLetterId::new("d")),
    ];
    let events: Vec<Event> = trails.into_iter().flat_map(|trailed| trail(trailed, 2, &json!({}))).collect();
    subject.publish(&events).await;
    subject.assert_received(&events).await;
}

/// EventBridge takes at most ten events and one mebibyte per call.
pub async fn more_events_than_fit_in_one_call_are_all_received(subject: &Subject) {
    let events = trail(job(), 25, &json!("x".repeat(60_000)));
    subject.publish(&events).await;
    subject.assert_received(&events).await;
}

pub async fn publishing_nothing_sends_nothing(subject: &Subject) {
    subject.publish(&[]).await;
    assert!(subject.subscriber.received(0).await.is_empty());
    let events = trail(job(), 1, &json!({}));
    subject.publish(&events).await;
    subject.assert_received(&events).await;
}

/// The relay publishes an event again when it could not mark it as published.
pub async fn a_repeated_publish_is_received_at_least_once(subject: &Subject) {
    let events = trail(job(), 3, &json!({}));
    subject.publish(&events[..2]).await;
    subject.publish(&events).await;
    let ids = |events: &[Event]| -> BTreeSet<String> {
        events.iter().map(|event| event.id.as_str().to_owned()).collect()
    };
    let mut received = subject.subscriber.received(3).await;
    if ids(&received).len() < 3 {
        received = subject.subscriber.received(5).await;
    }
    assert_eq!(ids(&received), ids(&events));
    assert!(received.len() <= 5 && received.iter().all(|event| events.contains(event)));
}
