//! Messages of a process that died: whose fault it was, and what is tried alone.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    ids::{JobId, Priority},
    keys::index,
    ports::queue::{Delivery, Outgoing, Queue},
};
use everypage_local::{Database, SqliteQueue};
use everypage_testkit::clock::ManualClock;

use crate::folder;

const VISIBILITY: Duration = Duration::from_secs(60);

struct Processes {
    database: Database,
    clock: Arc<ManualClock>,
    started: usize,
}

impl Processes {
    fn new() -> Self {
        let database = Database::open(&folder().join("everypage.db")).unwrap();
        Self { database, clock: Arc::default(), started: 0 }
    }

    /// Starts a process that takes the job over from the one before, which was killed.
    async fn start(&mut self) -> SqliteQueue {
        self.started += 1;
        let queue = SqliteQueue::new(self.database.clone(), self.clock.clone(), self.started.to_string());
        let killed = (self.started > 1).then(|| (self.started - 1).to_string());
        assert!(queue.take_over(&JobId::new("j"), killed.as_deref()).await.unwrap());
        queue
    }
}

async fn send(queue: &SqliteQueue, messages: usize) {
    let message = |n: usize| Outgoing {
        name: n.to_string(),
        job: JobId::new("j"),
        lane: Priority::Normal,
        body: n.to_string(),
        delay: Duration::ZERO,
    };
    queue.send(&(0..messages).map(message).collect::<Vec<_>>()).await.unwrap();
}

async fn receive(queue: &SqliteQueue) -> Vec<Delivery> {
    queue.receive(100, VISIBILITY).await.unwrap()
}

/// A page message of a tenant, as far as the queue reads it.
fn of_tenant(tenant: &str, n: usize) -> Outgoing {
    Outgoing {
        name: format!("{tenant}{n}"),
        job: JobId::new("j"),
        lane: Priority::Normal,
        body: format!("{{\"tenant\":\"{tenant}\",\"page_id\":{n}}}"),
        delay: Duration::ZERO,
    }
}

#[tokio::test]
async fn tenants_of_one_lane_take_turns() {
    let mut processes = Processes::new();
    let queue = processes.start().await;
    queue.send(&(0..50).map(|n| of_tenant("many", n)).collect::<Vec<_>>()).await.unwrap();
    let first = queue.receive(10, VISIBILITY).await.unwrap();
    assert_eq!(first.len(), 10);
    // Of those that are in progress, the first takes long: what it has reached counts, not where it stands.
    for done in &first[1..] {
        queue.delete(&done.receipt).await.unwrap();
    }
    queue.receive(10, VISIBILITY).await.unwrap();
    queue.send(&(0..20).map(|n| of_tenant("few", n)).collect::<Vec<_>>()).await.unwrap();
    let received = queue.receive(20, VISIBILITY).await.unwrap();
    let few = received.iter().filter(|delivery| delivery.body.contains("few")).count();
    assert!((9..=11).contains(&few), "{few} of 20 are of the tenant with few");
}

#[tokio::test]
async fn a_killed_process_is_not_the_fault_of_its_pages() {
    let mut processes = Processes::new();
    let mut queue = processes.start().await;
    send(&queue, 40).await;
    for kills in 0..6 {
        let received = receive(&queue).await;
        assert!(!received.is_empty());
        assert!(received.iter().all(|delivery| delivery.receive_count == 1), "after {kills} kills");
        // However long it takes until the next one starts.
        processes.clock.advance(Duration::from_secs(100 * kills));
        queue = processes.start().await;
    }
}

#[tokio::test]
async fn suspects_run_in_small_groups_and_at_last_alone() {
    let mut processes = Processes::new();
    let mut queue = processes.start().await;
    send(&queue, 20).await;
    let mut together = vec![];
    for _ in 0..5 {
        together.push(receive(&queue).await.len());
        assert_eq!(receive(&queue).await.len(), 0, "no more while these are in progress");
        queue = processes.start().await;
    }
    // Those with fewer crashes come first.
    assert_eq!(together, [20, 20, 8, 8, 4]);
    // Those that are done prove themselves innocent, eight at a time.
    let mut left = 20;
    while left > 0 {
        let received = receive(&queue).await;
        assert!(!received.is_empty(), "{left} are left");
        for delivery in &received {
            queue.delete(&delivery.receipt).await.unwrap();
        }
        left -= received.len();
    }
}

#[tokio::test]
async fn a_delivery_to_a_process_that_died_counts_for_a_page_that_was_alone() {
    let mut processes = Processes::new();
    let mut queue = processes.start().await;
    send(&queue, 1).await;
    for count in 1..=4 {
        assert_eq!(receive(&queue).await[0].receive_count, count);
        queue = processes.start().await;
    }
    // With another one, twice: suspects. Then alone.
    let mut processes = Processes::new();
    let mut queue = processes.start().await;
    send(&queue, 2).await;
    for _ in 0..2 {
        assert_eq!(receive(&queue).await.len(), 2);
        queue = processes.start().await;
    }
    let innocent = receive(&queue).await.remove(0);
    queue.delete(&innocent.receipt).await.unwrap();
    let mut queue = processes.start().await;
    assert_eq!(receive(&queue).await[0].receive_count, 2, "three crashes, the last one alone");
    queue = processes.start().await;
    assert_eq!(receive(&queue).await[0].receive_count, 3);
}

/// While other pages keep coming, a suspect would never run if it only ran when there are none.
#[tokio::test]
async fn a_suspect_waits_ten_seconds_at_most_for_its_turn_alone() {
    let mut processes = Processes::new();
    let mut queue = processes.start().await;
    send(&queue, 2).await;
    for crashes in 1..=4 {
        assert_eq!(receive(&queue).await.len(), 2, "before crash {crashes}");
        queue = processes.start().await;
    }
    let mut others = vec![];
    let is_suspect = |delivery: &Delivery| ["0", "1"].contains(&delivery.body.as_str());
    for second in 0..10 {
        let message = Outgoing {
            name: format!("other {second}"),
            job: JobId::new("j"),
            lane: Priority::Normal,
            body: "other".into(),
            delay: Duration::ZERO,
        };
        queue.send(&[message]).await.unwrap();
        let received = receive(&queue).await;
        assert!(received.len() == 1 && !is_suspect(&received[0]), "in second {second}");
        others.extend(received);
        processes.clock.advance(Duration::from_secs(1));
    }
    send(&queue, 3).await;
    assert!(receive(&queue).await.is_empty(), "what is in progress ends first");
    for other in others {
        queue.delete(&other.receipt).await.unwrap();
    }
    // One after the other, each alone, before the message that was sent last.
    for _ in 0..2 {
        let alone = receive(&queue).await;
        assert!(alone.len() == 1 && is_suspect(&alone[0]));
        assert!(receive(&queue).await.is_empty());
        queue.delete(&alone[0].receipt).await.unwrap();
    }
    assert_eq!(receive(&queue).await.len(), 1);
}

#[tokio::test]
async fn a_message_that_was_put_back_is_not_part_of_a_crash() {
    let mut processes = Processes::new();
    let queue = processes.start().await;
    send(&queue, 2).await;
    let received = receive(&queue).await;
    queue.put_back(&received[0].receipt, Duration::from_secs(5)).await.unwrap();
    let queue = processes.start().await;
    let mut counts: Vec<u32> = receive(&queue).await.iter().map(|delivery| delivery.receive_count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 2], "one was delivered again, the other was alone");
}

#[test]
fn a_file_of_the_first_format_is_migrated() {
    let path = folder().join("everypage.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE items (
             id INTEGER PRIMARY KEY, partition TEXT NOT NULL, sort TEXT NOT NULL,
             version INTEGER NOT NULL, stamp TEXT NOT NULL, body TEXT NOT NULL,
             tenant_partition TEXT, tenant_sort TEXT, state_partition TEXT, state_sort TEXT,
             expires INTEGER, UNIQUE (partition, sort)
         );
         INSERT INTO items (partition, sort, version, stamp, body, state_partition, state_sort) VALUES
             ('job#late', 'job', 7, 's', '{\"finished_at\":\"2026-11-16T10:20:26.554424942Z\"}', NULL, NULL),
             ('job#early', 'job', 7, 's', '{\"finished_at\":\"2026-11-16T10:20:26Z\"}', NULL, NULL),
             ('job#late', 'event#0000000001', 1, 's', '{\"finished_at\":\"2026-11-16T10:20:26Z\"}', NULL, NULL),
             ('job#open', 'job', 2, 's', '{}', 'jobs#open', '2026-11-16T10:25:26.000Z#open');
         CREATE TABLE messages (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             job TEXT NOT NULL, name TEXT NOT NULL UNIQUE, lane INTEGER NOT NULL, body TEXT NOT NULL,
             visible_at INTEGER NOT NULL, receive_count INTEGER NOT NULL DEFAULT 0
         );
         INSERT INTO messages (job, name, lane, body, visible_at) VALUES ('j', 'n', 2, 'b', 0);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = runtime.block_on(async {
            let database = Database::open(&path).unwrap();
            let queue = SqliteQueue::new(database, Arc::<ManualClock>::default(), "me");
            assert!(queue.take_over(&JobId::new("j"), None).await.unwrap());
            let received = receive(&queue).await;
            queue.put_back(&received[0].receipt, Duration::ZERO).await.unwrap();
            received
        });
        assert_eq!(received[0].body, "b");
    }
    // Retention finds jobs that had ended, by when they did.
    let listed = rusqlite::Connection::open(&path).unwrap();
    let mut listed = listed
        .prepare("SELECT state_sort FROM items WHERE state_partition = ?1 ORDER BY state_sort")
        .unwrap();
    let mut of = |partition: &str| -> Vec<String> {
        let rows = listed.query_map([partition], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(of(index::ENDED_JOBS), ["2026-11-16T10:20:26.000Z#early", "2026-11-16T10:20:26.554Z#late"]);
    assert_eq!(of(index::OPEN_JOBS), ["2026-11-16T10:25:26.000Z#open"]);
}
