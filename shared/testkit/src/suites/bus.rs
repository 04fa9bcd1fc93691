#![allow(clippy::unwrap_used, reason = "an exam fails by panicking")]

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        event::{Aggregate, Event, Head, Metadata},
        ids::{CorrelationId, DeadLetterId, EventId, JobId, PageNumber, Priority, TenantId},
    },
    ports::bus::Bus,
};
use serde_json::{Value, json};

use crate::clock::epoch;

/// Somebody who has listened to the bus from the beginning.
#[async_trait]
pub trait Listener: Send + Sync {
    /// All that was heard, as it came. At least `count` events, for which it waits.
    async fn heard(&self, count: usize) -> Vec<Event>;
}

pub struct Subject {
    bus: Arc<dyn Bus>,
    listener: Arc<dyn Listener>,
    keeps_order: bool,
}

impl Subject {
    pub fn new(bus: Arc<dyn Bus>, listener: Arc<dyn Listener>) -> Self {
        Self { bus, listener, keeps_order: true }
    }

    /// A bus behind which events may overtake each other, and come twice.
    pub fn in_any_order(self) -> Self {
        Self { keeps_order: false, ..self }
    }

    async fn publish(&self, events: &[Event]) {
        self.bus.publish(events).await.unwrap();
    }

    /// These were heard and no others: once and in their order, where the bus keeps it.
    async fn heard_are(&self, events: &[Event]) {
        let mut heard = self.listener.heard(events.len()).await;
        let mut events = events.to_vec();
        if !self.keeps_order {
            let place = |event: &Event| (event.aggregate.clone(), event.sequence);
            heard.sort_by_key(place);
            heard.dedup();
            events.sort_by_key(place);
        }
        assert!(heard == events, "{:?}", heard.iter().map(|event| &event.id).collect::<Vec<_>>());
    }
}

/// A trail of so many events.
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
        let typed = json!({"type": "page.settled", "data": data});
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

pub async fn an_event_is_heard_as_it_was_stored(subject: &Subject) {
    let data = json!({"text": "ä\n\u{1F511}\"\\", "number": 0.1, "none": null, "list": [[], {}]});
    let events = trail(job(), 1, &data);
    subject.publish(&events).await;
    let heard = subject.listener.heard(1).await;
    assert_eq!(heard, events);
    assert_eq!(heard[0].compute_hash(), heard[0].hash);
}

pub async fn a_trail_is_heard_in_order(subject: &Subject) {
    let events = trail(job(), 7, &json!({}));
    for part in events.chunks(3) {
        subject.publish(part).await;
    }
    subject.heard_are(&events).await;
}

pub async fn every_kind_of_trail_is_heard(subject: &Subject) {
    let trails = [
        job(),
        Aggregate::Page(JobId::new("j"), PageNumber::new(17).unwrap()),
        Aggregate::Breaker("openai:*".into()),
        Aggregate::DeadLetter(DeadLetterId::new("d")),
    ];
    let events: Vec<Event> = trails.into_iter().flat_map(|trailed| trail(trailed, 2, &json!({}))).collect();
    subject.publish(&events).await;
    subject.heard_are(&events).await;
}

/// EventBridge takes ten events and a mebibyte in a call.
pub async fn more_than_a_call_can_carry_is_heard_whole(subject: &Subject) {
    let events = trail(job(), 25, &json!("x".repeat(60_000)));
    subject.publish(&events).await;
    subject.heard_are(&events).await;
}

pub async fn publishing_nothing_tells_nobody(subject: &Subject) {
    subject.publish(&[]).await;
    assert!(subject.listener.heard(0).await.is_empty());
    let events = trail(job(), 1, &json!({}));
    subject.publish(&events).await;
    subject.heard_are(&events).await;
}

/// The relay publishes again what it could not mark as published.
pub async fn what_is_published_again_is_heard_at_least_once(subject: &Subject) {
    let events = trail(job(), 3, &json!({}));
    subject.publish(&events[..2]).await;
    subject.publish(&events).await;
    let ids = |events: &[Event]| -> BTreeSet<String> {
        events.iter().map(|event| event.id.as_str().to_owned()).collect()
    };
    let mut heard = subject.listener.heard(3).await;
    if ids(&heard).len() < 3 {
        heard = subject.listener.heard(5).await;
    }
    assert_eq!(ids(&heard), ids(&events));
    assert!(heard.len() <= 5 && heard.iter().all(|event| events.contains(event)));
}
