//! A burst of documents over a table with DynamoDB's quotas, in virtual time: the real use cases, of which nothing is
//! lost and no page falls back because writes are throttled.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    dead_letters,
    finish::verify::verify_job,
    job::State,
    notify::relay,
    ports::{
        Fault,
        records::{Batch, Index, Item, Key, Listing, Records, Written},
    },
};
use everypage_testkit::{
    clock::VirtualClock,
    memory::MemoryRecords,
    metered,
    pdf::FakeDocument,
    vision::{Reply, read_by},
};
use everypage_tests::harness::{Harness, seconds};
use futures::future::{join, join_all};

/// The run is this much smaller than 10,000 documents, and so are the quotas of what all documents share.
const SCALE: f64 = 250.0;
const DOCUMENTS: usize = 40;
const PAGES: u32 = 20;
/// Write units a second of one partition, of an index that is spread over eight, and of a whole table.
const PARTITION: f64 = 1000.0;
const INDEX: f64 = 8.0 * PARTITION;
const TABLE: f64 = 40_000.0;
/// DynamoDB lends unused capacity of the last five minutes; here a second's.
const BURST: f64 = 1.0;

/// Throttles writes to partitions that are over their quota.
struct Quotas {
    inner: Arc<MemoryRecords>,
    clock: Arc<VirtualClock>,
    buckets: Mutex<BTreeMap<String, Bucket>>,
    calls: AtomicU64,
}

#[derive(Default)]
struct Bucket {
    used: f64,
    at: f64,
    throttled: u64,
}

/// What a partition takes in a second; a job's own partitions are as in the full run.
fn rate(partition: &str) -> f64 {
    match partition {
        "table" => TABLE / SCALE,
        index if index.contains(": ") => INDEX / SCALE,
        own if own.contains('#') => PARTITION,
        _ => PARTITION / SCALE,
    }
}

impl Quotas {
    /// Takes the units of a write from all buckets, or from none.
    fn take(&self, needed: &BTreeMap<String, f64>) -> bool {
        let now = seconds(self.clock.as_ref());
        let mut buckets = self.buckets.lock().unwrap();
        for partition in needed.keys() {
            let bucket = buckets.entry(partition.clone()).or_default();
            bucket.used = (bucket.used - (now - bucket.at) * rate(partition)).max(0.0);
            bucket.at = now;
        }
        // A bucket that is not empty takes one more write, however large.
        let full = needed.keys().find(|partition| buckets[*partition].used >= rate(partition) * BURST);
        if let Some(bucket) = full.and_then(|partition| buckets.get_mut(partition)) {
            bucket.throttled += 1;
            return false;
        }
        for (partition, units) in needed {
            buckets.entry(partition.clone()).or_default().used += units;
        }
        true
    }

    /// The partition that throttled most, and how often.
    fn narrowest(&self) -> (String, u64) {
        let buckets = self.buckets.lock().unwrap();
        let most = buckets.iter().max_by_key(|(_, bucket)| bucket.throttled);
        most.map(|(partition, bucket)| (partition.clone(), bucket.throttled)).unwrap_or_default()
    }
}

#[async_trait]
impl Records for Quotas {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.inner.get_many(keys).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.inner.list(partition, prefix, after, limit).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.inner.list_index(index, partition, after, descending, limit).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut needed: BTreeMap<String, f64> = BTreeMap::new();
        for change in &batch.changes {
            let before = self.inner.get(change.key()).await?;
            for (partition, units) in metered::written(before.as_ref(), change, batch.changes.len() > 1) {
                *needed.entry("table".into()).or_default() += units as f64;
                *needed.entry(partition).or_default() += units as f64;
            }
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !self.take(&needed) {
            return Err(Fault::Throttled { service: "DynamoDB", retry_after: None });
        }
        self.inner.write(batch).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_documents_is_read_completely_however_often_writes_are_throttled() {
    let in_flight = (512.0 / SCALE).ceil().to_string();
    let pairs = [("MAX_INFLIGHT_PER_MODEL", in_flight.as_str()), ("JOB_TIMEOUT", "12h")];
    let harness = Harness::new(&pairs);
    let call = Duration::from_secs(6);
    harness.vision.set_behaviour(move |target, page| Reply::AnswerAfter(call, read_by(target, page)));
    let quotas = Arc::new(Quotas {
        inner: harness.records.clone(),
        clock: harness.clock.clone(),
        buckets: Mutex::default(),
        calls: AtomicU64::default(),
    });
    let process = harness.start_on("a", quotas.clone());
    let all = (0..DOCUMENTS).map(async |number| {
        let mut document = FakeDocument::graphics(PAGES);
        document.pages[0].text = format!("document {number}");
        // A caller repeats what was refused.
        let id = loop {
            match process.submit(&document).await {
                Ok(submitted) => break submitted.job.id,
                Err(_) => harness.advance(Duration::from_secs(5)).await,
            }
        };
        process.driver.drive(&id).await.unwrap()
    });
    let jobs = tokio::select! {
        biased;
        jobs = join_all(all) => jobs,
        _ = join(process.driver.work(), relay::run(&process.app.publisher)) => unreachable!("they never end"),
    };
    for job in &jobs {
        assert_eq!(job.state, State::Audited);
        let metadata = &job.result.as_ref().unwrap().metadata;
        assert_eq!((metadata.final_ai_pages, metadata.timeout_occurred), (PAGES, false));
        let report = verify_job(&process.app.store, process.app.blobs.as_ref(), &job.id).await.unwrap();
        assert_eq!(report.findings, Vec::<String>::new());
    }
    assert_eq!(dead_letters::count_waiting(&process.app.store, 10).await.unwrap(), 0);
    let (narrowest, throttled) = quotas.narrowest();
    assert!(throttled > 0, "nothing was throttled: the quotas were not reached");
    println!(
        "{DOCUMENTS} documents of {PAGES} pages in {:.0} s; {} writes, of which {narrowest} throttled {throttled}",
        seconds(harness.clock.as_ref()),
        quotas.calls.load(Ordering::Relaxed),
    );
}
