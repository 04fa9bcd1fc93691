#![allow(clippy::unwrap_used, reason = "an exam fails by panicking")]

use std::{sync::Arc, time::Duration};

use everypage_core::{
    domain::ids::{JobId, Priority},
    ports::queue::{Outgoing, Queue},
};

use crate::clock::ManualClock;

/// A queue that delivers the messages of job `j` here, and the clock that it reads.
pub struct Subject {
    pub queue: Arc<dyn Queue>,
    pub clock: Arc<ManualClock>,
}

const MINUTE: Duration = Duration::from_secs(60);

fn message(body: &str, lane: Priority) -> Outgoing {
    Outgoing { name: body.to_owned(), job: JobId::new("j"), lane, body: body.to_owned() }
}

async fn send(subject: &Subject, body: &str) {
    subject.queue.send(&[message(body, Priority::Normal)]).await.unwrap();
}

async fn receive(subject: &Subject) -> Vec<everypage_core::ports::queue::Delivery> {
    subject.queue.receive(10, MINUTE).await.unwrap()
}

pub async fn a_message_is_hidden_while_it_is_worked_on_and_comes_back(subject: &Subject) {
    send(subject, "m").await;
    let first = receive(subject).await;
    assert_eq!((first.len(), first[0].body.as_str()), (1, "m"));
    assert!(receive(subject).await.is_empty());
    subject.clock.advance(MINUTE);
    assert_eq!(receive(subject).await.len(), 1);
}

pub async fn a_deleted_message_is_gone_and_a_void_receipt_deletes_nothing(subject: &Subject) {
    send(subject, "m").await;
    let stale = receive(subject).await.remove(0).receipt;
    subject.clock.advance(MINUTE);
    let current = receive(subject).await.remove(0).receipt;
    subject.queue.delete(&stale).await.unwrap();
    subject.clock.advance(MINUTE);
    let again = receive(subject).await;
    assert_eq!(again.len(), 1, "a void receipt deleted its successor's message");
    subject.queue.delete(&current).await.unwrap();
    subject.queue.delete(&again[0].receipt).await.unwrap();
    subject.queue.delete(&again[0].receipt).await.unwrap();
    subject.clock.advance(MINUTE);
    assert!(receive(subject).await.is_empty());
}

pub async fn extending_keeps_a_message_and_zero_gives_it_back(subject: &Subject) {
    send(subject, "m").await;
    let receipt = receive(subject).await.remove(0).receipt;
    subject.clock.advance(MINUTE / 2);
    subject.queue.extend(&receipt, MINUTE).await.unwrap();
    subject.clock.advance(MINUTE / 2);
    assert!(receive(subject).await.is_empty());
    subject.queue.extend(&receipt, Duration::ZERO).await.unwrap();
    assert_eq!(receive(subject).await.len(), 1);
}

pub async fn higher_lanes_go_first_and_lower_ones_do_not_starve(subject: &Subject) {
    subject.queue.send(&[message("low", Priority::Low)]).await.unwrap();
    let urgent: Vec<Outgoing> = (0..40).map(|n| message(&format!("urgent {n}"), Priority::Urgent)).collect();
    subject.queue.send(&urgent).await.unwrap();
    let mut order = Vec::new();
    for _ in 0..41 {
        for delivery in subject.queue.receive(1, MINUTE).await.unwrap() {
            order.push(delivery.body);
        }
    }
    let low = order.iter().position(|body| body == "low");
    assert!(order[0].starts_with("urgent"), "{order:?}");
    assert!(low.is_some_and(|place| place < 20), "the low lane starved: {low:?}");
}

pub async fn receives_are_counted(subject: &Subject) {
    send(subject, "m").await;
    for count in 1..=4 {
        assert_eq!(receive(subject).await[0].receive_count, count);
        subject.clock.advance(MINUTE);
    }
}

pub async fn a_message_keeps_its_id_over_deliveries(subject: &Subject) {
    send(subject, "m").await;
    let first = receive(subject).await.remove(0);
    subject.clock.advance(MINUTE);
    let second = receive(subject).await.remove(0);
    assert_eq!(first.id, second.id);
    assert_ne!(first.receipt, second.receipt);
}
