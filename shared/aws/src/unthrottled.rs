//! Records whose throttled calls are retried within seconds. A throttled call was not applied, so that repeating it
//! is safe; calls that may have been applied are retried by the core.
//!
//! DynamoDB cancels transactions that touch one item at the same moment, such as those of two pages that leave the
//! countdown of their range together, and it takes a moment to split a partition that became busy.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    clock::Clock,
    ids::Ids,
    records::{Batch, Index, Item, Key, Listing, Records, Written},
};

/// Retries of one call; with the pauses below they take up to five seconds.
const MAX_RETRIES: u32 = 8;
/// The longest first pause; it doubles with each retry.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_millis(1600);

pub struct Unthrottled {
    inner: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Unthrottled {
    /// `ids` make pauses random.
    pub fn new(inner: Arc<dyn Records>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { inner, clock, ids }
    }

    async fn retry<T, F: Future<Output = Result<T, Fault>>>(&self, call: impl Fn() -> F) -> Result<T, Fault> {
        for retry in 0..MAX_RETRIES {
            match call().await {
                Err(Fault::Throttled { .. }) => self.clock.sleep(self.pause(retry)).await,
                done => return done,
            }
        }
        call().await
    }

    /// Any time up to the longest pause: callers that met once should not meet again.
    fn pause(&self, retry: u32) -> Duration {
        let longest = (FIRST_PAUSE * 2u32.pow(retry)).min(MAX_PAUSE);
        Duration::from_millis(self.ids.random_below(longest.as_millis() as u64 + 1))
    }
}

#[async_trait]
impl Records for Unthrottled {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.retry(|| self.inner.get(key)).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.retry(|| self.inner.get_many(keys)).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.retry(|| self.inner.list(partition, prefix, after, limit)).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.retry(|| self.inner.list_index(index, partition, after, descending, limit)).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        self.retry(|| self.inner.write(batch)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use everypage_core::ports::records::{Change, Draft, When};
    use everypage_testkit::{
        clock::VirtualClock,
        faulty::{FaultInjector, Faulty, Injection},
        ids::CountingIds,
        memory::MemoryRecords,
    };

    use super::*;

    /// Fails the first calls.
    struct Failing {
        times: u32,
        fault: Fault,
        calls: AtomicU32,
    }

    #[async_trait]
    impl FaultInjector for Failing {
        async fn before(&self, _: &'static str) -> Injection {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            if call < self.times { Injection::Refuse(self.fault.clone()) } else { Injection::None }
        }
    }

    async fn write(times: u32, fault: Fault) -> (Result<Written, Fault>, u32) {
        let failing = Arc::new(Failing { times, fault, calls: AtomicU32::new(0) });
        let records: Arc<dyn Records> = Arc::new(MemoryRecords::default());
        let faulty: Arc<dyn Records> = Arc::new(Faulty::new(records, failing.clone()));
        let records =
            Unthrottled::new(faulty, Arc::new(VirtualClock::default()), Arc::new(CountingIds::default()));
        let draft = Draft::new(Key::new("p", "s"), "{}".into());
        let batch = Batch { stamp: "x".into(), changes: vec![Change::Put { draft, when: When::Absent }] };
        (records.write(&batch).await, failing.calls.load(Ordering::SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_call_is_retried_and_others_are_not() {
        let throttled = || Fault::Throttled { service: "DynamoDB", retry_after: None };
        assert_eq!(write(5, throttled()).await, (Ok(Written::Applied), 6));
        let (written, calls) = write(100, throttled()).await;
        assert!(matches!(written, Err(Fault::Throttled { .. })) && calls == MAX_RETRIES + 1);
        let (written, calls) = write(1, Fault::unreachable("DynamoDB", "no reply")).await;
        assert!(written.is_err() && calls == 1, "it may have been applied");
    }
}
