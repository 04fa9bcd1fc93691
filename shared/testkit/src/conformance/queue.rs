#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use everypage_core::{
    ids::{JobId, Priority},
    ports::{
        clock::Clock,
        queue::{Delivery, Outgoing, Queue},
    },
};

use crate::clock::ManualClock;

/// A queue that delivers the messages of job `j` here, and the clock that it reads.
pub struct Subject {
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    minute: Duration,
    has_dead_letter_queue: bool,
    has_depths: bool,
}

impl Subject {
    /// A queue whose clock the suite advances.
    pub fn new(queue: Arc<dyn Queue>, clock: Arc<ManualClock>) -> Self {
        Self::in_real_time(queue, clock, Duration::from_secs(60))
    }

    /// A queue in real time, for which the suite must wait: `minute` is how long the suite's minute
    /// takes. Whole seconds, and enough of them that a slow machine's calls fit into half of it.
    pub fn in_real_time(queue: Arc<dyn Queue>, clock: Arc<dyn Clock>, minute: Duration) -> Self {
        Self { queue, clock, minute, has_dead_letter_queue: false, has_depths: true }
    }

    /// A queue with a dead-letter queue that holds one message, `poison`. Others must never return a
    /// dead letter.
    pub fn with_dead_letter_queue(self) -> Self {
        Self { has_dead_letter_queue: true, ..self }
    }

    /// A queue that leaves measuring its lanes to its service's own metrics. Others must report a depth
    /// for every lane.
    pub fn without_depths(self) -> Self {
        Self { has_depths: false, ..self }
    }

    /// Lets time pass for the queue.
    async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

fn message(body: &str, lane: Priority) -> Outgoing {
    Outgoing {
        name: body.to_owned(),
        job: JobId::new("j"),
        lane,
        body: body.to_owned(),
        delay: Duration::ZERO,
    }
}

async fn send(subject: &Subject, body: &str) {
    subject.queue.send(&[message(body, Priority::Normal)]).await.unwrap();
}

async fn receive(subject: &Subject) -> Vec<Delivery> {
    subject.queue.receive(10, subject.minute).await.unwrap()
}

pub async fn a_received_message_is_hidden_and_becomes_visible_again(subject: &Subject) {
    send(subject, "m").await;
    let first = receive(subject).await;
    assert_eq!((first.len(), first[0].body.as_str()), (1, "m"));
    assert!(receive(subject).await.is_empty());
    subject.pass(subject.minute).await;
    assert_eq!(receive(subject).await.len(), 1);
}

pub async fn a_stale_receipt_deletes_nothing(subject: &Subject) {
    send(subject, "m").await;
    let stale = receive(subject).await.remove(0).receipt;
    subject.pass(subject.minute).await;
    let current = receive(subject).await.remove(0).receipt;
    subject.queue.delete(&stale).await.unwrap();
    subject.pass(subject.minute).await;
    let again = receive(subject).await;
    assert_eq!(again.len(), 1, "a stale receipt deleted its successor's message");
    subject.queue.delete(&current).await.unwrap();
    subject.queue.delete(&again[0].receipt).await.unwrap();
    subject.queue.delete(&again[0].receipt).await.unwrap();
    subject.pass(subject.minute).await;
    assert!(receive(subject).await.is_empty());
}

pub async fn extending_keeps_a_message_hidden_and_zero_returns_it(subject: &Subject) {
    send(subject, "m").await;
    let receipt = receive(subject).await.remove(0).receipt;
    subject.pass(subject.minute / 2).await;
    subject.queue.extend(&receipt, subject.minute).await.unwrap();
    subject.pass(subject.minute / 2).await;
    assert!(receive(subject).await.is_empty());
    subject.queue.extend(&receipt, Duration::ZERO).await.unwrap();
    assert_eq!(receive(subject).await.len(), 1);
}

pub async fn higher_lanes_go_first_and_lower_lanes_do_not_starve(subject: &Subject) {
    subject.queue.send(&[message("low", Priority::Low)]).await.unwrap();
    let urgent: Vec<Outgoing> = (0..40).map(|n| message(&format!("urgent {n}"), Priority::Urgent)).collect();
    subject.queue.send(&urgent).await.unwrap();
    let mut order = Vec::new();
    for _ in 0..41 {
        for delivery in subject.queue.receive(1, subject.minute).await.unwrap() {
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
        subject.pass(subject.minute).await;
    }
}

pub async fn a_message_keeps_its_id_over_deliveries(subject: &Subject) {
    send(subject, "m").await;
    let first = receive(subject).await.remove(0);
    subject.pass(subject.minute).await;
    let second = receive(subject).await.remove(0);
    assert_eq!(first.id, second.id);
    assert_ne!(first.receipt, second.receipt);
}

pub async fn dead_letters_stay_until_they_are_deleted(subject: &Subject) {
    let queue = &subject.queue;
    assert!(receive(subject).await.is_empty(), "a dead letter must not be received as work");
    let dead = async || queue.receive_dead_letters(10, subject.minute).await.unwrap();
    let found = dead().await;
    if !subject.has_dead_letter_queue {
        assert!(found.is_empty());
        return;
    }
    assert_eq!((found.len(), found[0].body.as_str()), (1, "poison"));
    assert!(dead().await.is_empty(), "hidden while it is received");
    queue.extend(&found[0].receipt, Duration::ZERO).await.unwrap();
    let again = dead().await;
    assert_eq!(again.len(), 1);
    queue.delete(&again[0].receipt).await.unwrap();
    subject.pass(subject.minute).await;
    assert!(dead().await.is_empty());
}

pub async fn the_depth_of_a_lane_counts_its_undeleted_messages(subject: &Subject) {
    let queue = &subject.queue;
    let (low, high) = (message("low", Priority::Low), message("high", Priority::High));
    queue.send(&[low, high]).await.unwrap();
    let depth = async |wanted: Priority| {
        let depths = queue.depths().await.unwrap();
        depths.into_iter().find(|(lane, _)| *lane == wanted).map(|(_, depth)| depth)
    };
    if !subject.has_depths {
        assert!(queue.depths().await.unwrap().is_empty(), "declared to report none");
        return;
    }
    let received = receive(subject).await;
    assert_eq!(depth(Priority::High).await, Some(1), "a received message still counts");
    queue.delete(&received[0].receipt).await.unwrap();
    let deleted = received[0].lane;
    for lane in Priority::ALL {
        let expected = matches!(lane, Priority::Low | Priority::High) && lane != deleted;
        assert_eq!(depth(lane).await, Some(expected.into()), "{lane:?}");
    }
}
