//! Page messages: delivered twice, slowly, or with storage that fails meanwhile; in-flight limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::Retrying,
    dead_letters,
    ports::{Fault, blobs::Blobs, clock::Clock, records::Records, vision::Finish},
    read::outcome::CallResult,
    time::after,
};
use everypage_testkit::{
    clock::VirtualClock,
    faulty::{FaultInjector, Faults, Faulty, Injection},
    ids::CountingIds,
    memory::MemoryBlobs,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::{harness::Harness, invariants};
use jiff::Timestamp;

#[tokio::test(start_paused = true)]
async fn calls_in_flight_stay_within_the_limit() {
    let harness = Harness::new(&[("WORKER_CONCURRENCY", "16"), ("MAX_INFLIGHT_PER_MODEL", "3")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_millis(200), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(40)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 40);
    assert_eq!(harness.vision.max_in_flight("gpt-5.4"), 3);
    invariants::nothing_is_held(&harness.records, harness.clock.now());
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_deliveries_make_one_call() {
    let harness = Harness::with_faults(&[], Faults::none(), true);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(5), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(12)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    invariants::succeeded(&job);
    invariants::result_is_whole(&process.app, &job, 12).await;
    invariants::paid_once(&harness.vision, 0);
    process.work_for(Duration::from_secs(300)).await;
    assert!(harness.queue.is_empty());
    assert!(
        dead_letters::waiting(&process.app.store, 10).await.unwrap().is_empty(),
        "a second delivery is not a dead letter"
    );
    invariants::paid_once(&harness.vision, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_keeps_its_page_and_its_message() {
    let harness = Harness::new(&[("REQUEST_TIMEOUT", "200s"), ("HEDGE", "off")]);
    harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(140), read_by(target, page)));
    let process = harness.start("a");
    let id = process.submit(&FakeDocument::graphics(2)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    assert_eq!(process.result(&job).await.metadata.final_ai_pages, 2);
    invariants::paid_once(&harness.vision, 0);
}

/// Refuses as many writes as it says.
#[derive(Default)]
struct WritesUnavailable(AtomicUsize);

#[async_trait]
impl FaultInjector for WritesUnavailable {
    async fn before(&self, call: &'static str) -> Injection {
        let is_refused = call == "records.write"
            && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        match is_refused {
            true => Injection::Refuse(Fault::unreachable("records", "made to fail")),
            false => Injection::None,
        }
    }

    async fn after(&self) {}
}

#[tokio::test(start_paused = true)]
async fn model_calls_of_an_interrupted_delivery_are_kept() {
    let harness = Harness::new(&[]);
    let writes: Arc<WritesUnavailable> = Arc::default();
    let unavailable = writes.clone();
    // The first model refuses the page, which is paid; then its slot can't be given back, with all retries,
    // and no slot of the next one can be taken.
    harness.vision.set_behaviour(move |target, page| match target.model.as_str() {
        "gpt-5.4" => {
            unavailable.0.store(8, Ordering::SeqCst);
            Reply::Finish(Finish::Refusal, String::new())
        }
        _ => Reply::Answer(read_by(target, page)),
    });
    let records: Arc<dyn Records> = harness.records.clone();
    let process = harness.start_on("a", Arc::new(Faulty::new(records, writes.clone())));
    let id = process.submit(&FakeDocument::graphics(1)).await.unwrap().job.id;
    let job = process.finish(&id).await;
    let document = process.result(&job).await;
    let results: Vec<CallResult> = document.pages[0].calls.iter().map(|call| call.result).collect();
    assert_eq!(results, [CallResult::Refusal, CallResult::Answered]);
    assert_eq!(document.metadata.cost_micro_usd.0, 2_000, "the refusal and the answer");
    invariants::trail_verifies(&process.app, &job).await;
}

/// Throttles every call until a certain moment, with a very short `retry_after`.
struct ThrottleWithShortRetryAfter {
    clock: Arc<VirtualClock>,
    until: Timestamp,
}

#[async_trait]
impl FaultInjector for ThrottleWithShortRetryAfter {
    async fn before(&self, _: &'static str) -> Injection {
        let retry_after = Some(Duration::from_millis(10));
        match self.clock.now() < self.until {
            true => Injection::Refuse(Fault::Throttled { service: "test", retry_after }),
            false => Injection::None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_retry_after_does_not_use_up_the_retries() {
    let clock = Arc::new(VirtualClock::default());
    let until = after(clock.now(), Duration::from_secs(15));
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let blobs: Arc<dyn Blobs> =
        Arc::new(Faulty::new(blobs, Arc::new(ThrottleWithShortRetryAfter { clock: clock.clone(), until })));
    let intervals = [1, 4, 16].map(Duration::from_secs).to_vec();
    let retrying = Retrying::new(blobs, clock.clone(), Arc::new(CountingIds::default()), intervals);
    retrying.put_new("a", vec![1]).await.unwrap();
    assert_eq!(retrying.get("a").await.unwrap(), Some(vec![1]));
}
