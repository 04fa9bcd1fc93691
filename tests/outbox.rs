//! Publishing of stored events, and the number of storage calls per page.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    billing::{
        account::{AccountEvent, Cause},
        accounts,
    },
    events::trail,
    ids::TenantId,
    notify::relay,
    ports::records::Records,
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
    accounts::change(&process.app.store, &TenantId::new(tenant), "ann", &event).await.unwrap();
}

fn unpublished(harness: &Harness) -> usize {
    harness.records.dump().iter().filter(|item| trail::is_unpublished(&item.draft)).count()
}

#[tokio::test(start_paused = true)]
async fn a_lagging_index_neither_delays_nor_repeats_an_event() {
    let mut harness = Harness::new(&[]);
    harness.records = Arc::new(MemoryRecords::lagging(harness.clock.clone(), Duration::from_secs(5)));
    let process = harness.start("a");
    for _ in 0..3 {
        grant(&process, "local").await;
        relay::relay_own(&process.app.publisher).await.unwrap();
        // Another process believes this one is dead, and finds published events in the lagging index.
        relay::relay(&harness.start("b").app.publisher, "a").await.unwrap();
    }
    harness.advance(Duration::from_secs(6)).await;
    relay::relay(&harness.start("b").app.publisher, "a").await.unwrap();
    let sequences: Vec<u64> = harness.bus.events().iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(unpublished(&harness), 0);
}

#[tokio::test(start_paused = true)]
async fn more_events_than_fit_in_memory_are_all_published() {
    let harness = Harness::new(&[]);
    let process = harness.start("a");
    for number in 0..1010 {
        grant(&process, &format!("tenant-{number}")).await;
    }
    relay::relay_own(&process.app.publisher).await.unwrap();
    assert_eq!((harness.bus.events().len(), unpublished(&harness)), (1010, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_write_lost_its_reply_is_published_within_a_minute() {
    // The write of the grant and each of its retries lose their replies.
    let harness = Harness::with_faults(&[], Faults::at(1, 4, Mode::LoseReply), false);
    let process = harness.start("a");
    let cause = Cause::Operator { by: "ann".into(), note: String::new() };
    let event = AccountEvent::Added { credits: 1, cause };
    let granted = accounts::change(&process.app.store, &TenantId::new("local"), "ann", &event).await;
    assert!(granted.is_err(), "the caller can't know that it was written");
    relay::relay_own(&process.app.publisher).await.unwrap();
    assert_eq!((harness.bus.events().len(), unpublished(&harness)), (0, 1));
    harness.advance(Duration::from_secs(60)).await;
    relay::relay_own(&process.app.publisher).await.unwrap();
    assert_eq!((harness.bus.events().len(), unpublished(&harness)), (1, 0));
}

/// Counts calls.
#[derive(Default)]
struct CallCounter(Mutex<BTreeMap<&'static str, usize>>);

#[async_trait]
impl FaultInjector for CallCounter {
    async fn before(&self, call: &'static str) -> Injection {
        *self.0.lock().unwrap().entry(call).or_default() += 1;
        Injection::None
    }

    async fn after(&self) {}
}

/// The storage calls of a job whose pages are read one after the other, each by the first model call.
async fn calls(pages: u32) -> BTreeMap<&'static str, usize> {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "1"), ("JOB_TIMEOUT", "1h")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_millis(1250), read_by(target, page)));
    let counter: Arc<CallCounter> = Arc::default();
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, counter.clone())));
    let id = process.submit(&FakeDocument::graphics(pages)).await.unwrap().job.id;
    // The driver's own polling is not counted.
    let (driver, worker) = (harness.start("driver"), process);
    let drive = driver.driver.drive(&id);
    let work = futures::future::join(worker.driver.work(), relay::run(&worker.app.publisher));
    tokio::select! { biased; _ = drive => {}, _ = work => unreachable!("they run until they are dropped") }
    counter.0.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_page_read_by_the_first_model_call_takes_few_storage_calls() {
    let (few, many) = (calls(10).await, calls(30).await);
    let each = |call| (many.get(call).unwrap_or(&0) - few.get(call).unwrap_or(&0)) as f64 / 20.0;
    // Claim, slot taken, slot released, page settled with its event and countdown, and the event marked as
    // published.
    assert_eq!(each("records.write"), 5.0, "{few:?} {many:?}");
    // The job, before and after; the countdown of the page's range; the tenant's settings every ten seconds.
    // And the pace of the model, at most once a second.
    assert!(each("records.get") < 4.2, "{few:?} {many:?}");
    // The breakers of all four models in one call.
    assert_eq!((each("records.get_many"), each("records.list")), (1.0, 0.1), "{few:?} {many:?}");
    assert_eq!(each("records.list_index"), 0.0, "{few:?} {many:?}");
}
