//! Events on their way from the store to the bus, and what a page costs in calls to the store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{
        account::{AccountEvent, Cause},
        ids::TenantId,
    },
    ports::records::Records,
    store::{accounts, trail},
    usecases::relay,
};
use everypage_testkit::{
    faulty::{FaultInjector, Faults, Faulty, Injection, Mode},
    memory::MemoryRecords,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, Process};

async fn grant(process: &Process, tenant: &str) {
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let event = AccountEvent::Added { credits: 1, cause };
    accounts::change(&process.app, &TenantId::new(tenant), "ann", &event).await.unwrap();
}

fn marked(harness: &Harness) -> usize {
    harness.records.dump().iter().filter(|item| trail::is_unpublished(&item.draft)).count()
}

#[tokio::test(start_paused = true)]
async fn an_index_that_lags_behind_delays_and_doubles_no_event() {
    let mut harness = Harness::new(&[]);
    harness.records = Arc::new(MemoryRecords::lagging(harness.clock.clone(), Duration::from_secs(5)));
    let process = harness.start("a");
    for _ in 0..3 {
        grant(&process, "local").await;
        relay::relay_own(&process.app).await.unwrap();
        // Somebody takes this process for dead, and finds in the index what is published by now.
        relay::relay(&harness.start("b").app, "a").await.unwrap();
    }
    harness.advance(Duration::from_secs(6)).await;
    relay::relay(&harness.start("b").app, "a").await.unwrap();
    let sequences: Vec<u64> = harness.bus.events().iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(marked(&harness), 0);
}

#[tokio::test(start_paused = true)]
async fn more_than_are_remembered_are_published_all_the_same() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    for number in 0..1010 {
        grant(&process, &format!("tenant-{number}")).await;
    }
    relay::relay_own(&process.app).await.unwrap();
    assert_eq!((harness.bus.events().len(), marked(&harness)), (1010, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_write_seemed_to_fail_is_published_within_a_minute() {
    // The write of the grant, and each time that it is tried again, loses its reply.
    let harness = Harness::with_faults(&[], Faults::at(1, 4, Mode::LoseReply), false);
    let process = harness.start("a");
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let event = AccountEvent::Added { credits: 1, cause };
    let told = accounts::change(&process.app, &TenantId::new("local"), "ann", &event).await;
    assert!(told.is_err(), "nobody knows that it was written");
    relay::relay_own(&process.app).await.unwrap();
    assert_eq!((harness.bus.events().len(), marked(&harness)), (0, 1));
    harness.advance(Duration::from_secs(60)).await;
    relay::relay_own(&process.app).await.unwrap();
    assert_eq!((harness.bus.events().len(), marked(&harness)), (1, 0));
}

/// Counts calls.
#[derive(Default)]
struct Counted(Mutex<BTreeMap<&'static str, usize>>);

#[async_trait]
impl FaultInjector for Counted {
    async fn before(&self, call: &'static str) -> Injection {
        *self.0.lock().unwrap().entry(call).or_default() += 1;
        Injection::None
    }

    async fn after(&self) {}
}

/// Calls to the store of a job of so many pages, each read at the first call, one after the other.
async fn calls(pages: u32) -> BTreeMap<&'static str, usize> {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("JOB_TIMEOUT", "1h")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_millis(1250), read_by(target, page)));
    let counted: Arc<Counted> = Arc::default();
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, counted.clone())));
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    // What the driver itself looks at every second is not the page's.
    let (driver, worker) = (harness.start("driver"), process);
    let drive = driver.driver.drive(&id);
    let work = futures::future::join(worker.driver.work(), relay::run(&worker.app));
    tokio::select! { biased; _ = drive => {}, _ = work => unreachable!("they work for ever") }
    counted.0.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_read_at_once_costs_few_calls() {
    let (few, many) = (calls(10).await, calls(30).await);
    let each = |call| (many.get(call).unwrap_or(&0) - few.get(call).unwrap_or(&0)) as f64 / 20.0;
    // Claim, slot taken, slot given back, page and event settled; and the event's mark.
    assert_eq!(each("records.write"), 5.0, "{few:?} {many:?}");
    // The job, and once more here, where its flow is another process's; the tenant's settings every ten
    // seconds.
    assert!(each("records.get") < 2.2, "{few:?} {many:?}");
    // The breakers of all four models together; the slots of one.
    assert_eq!((each("records.get_many"), each("records.list")), (1.0, 1.0), "{few:?} {many:?}");
    assert_eq!(each("records.list_index"), 0.0, "{few:?} {many:?}");
}
