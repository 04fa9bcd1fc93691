//! Retries of our own storage, queue and flow calls, after 1 s, 4 s and 16 s with jitter.
//!
//! A reply that was lost must not make a write look refused: on a retry, a record that carries
//! this batch's stamp was written by it.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use tracing::warn;

use crate::{
    backoff::{retry_pause, spread},
    ids::{JobId, Priority},
    job::State,
    ports::{
        Fault, Next,
        blobs::{Blobs, LocalFile, Stored},
        clock::Clock,
        flow::{Flow, FlowStart},
        ids::Ids,
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Change, Index, Item, Key, Listing, Records, Written},
    },
    telemetry::metrics,
};

/// Longest pause that a service can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// A port whose calls are retried.
pub struct Retrying<P: ?Sized> {
    inner: Arc<P>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    intervals: Vec<Duration>,
}

impl<P: ?Sized> Retrying<P> {
    /// `ids` make pauses random.
    pub fn new(inner: Arc<P>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, intervals: Vec<Duration>) -> Self {
        Self { inner, clock, ids, intervals }
    }

    /// Passes `call` the number of the attempt, from 0.
    async fn retry<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        call: impl Fn(usize) -> F,
    ) -> Result<T, Fault> {
        let mut attempt = 0;
        loop {
            let fault = match call(attempt).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            attempt += 1;
            let Some(interval) = retry_pause(&self.intervals, attempt) else { return Err(fault) };
            let own = spread(interval, |bound| self.ids.random_below(bound));
            let pause = match fault.next() {
                Next::GiveUp => return Err(fault),
                Next::Retry => own,
                // Never sooner than our own pause: a service that asks for little would use up the retries.
                Next::RetryAfter(requested) => requested.clamp(own, own.max(MAX_RETRY_AFTER)),
            };
            warn!(%fault, attempt, "call failed, retrying");
            metrics::retried();
            self.clock.sleep(pause).await;
        }
    }
}

#[async_trait]
impl Records for Retrying<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        self.retry(|_| self.inner.get(key)).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        self.retry(|_| self.inner.get_many(keys)).await
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.retry(|_| self.inner.list(partition, prefix, after, limit)).await
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        self.retry(|_| self.inner.list_index(index, partition, after, descending, limit)).await
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        self.retry(|attempt| async move {
            let written = self.inner.write(batch).await?;
            if attempt > 0 && matches!(written, Written::Refused { .. }) && self.was_ours(batch).await? {
                return Ok(Written::Applied);
            }
            Ok(written)
        })
        .await
    }
}

impl Retrying<dyn Records> {
    /// Batches are whole or absent, so one record with our stamp proves them all.
    async fn was_ours(&self, batch: &Batch) -> Result<bool, Fault> {
        for change in &batch.changes {
            if let Change::Put { draft, .. } = change
                && let Some(item) = self.inner.get(&draft.key).await?
                && item.stamp == batch.stamp
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[async_trait]
impl Blobs for Retrying<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        self.retry(|_| self.inner.put_new(key, bytes.clone())).await
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.retry(|_| self.inner.put_file(key, file)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.retry(|_| self.inner.get(key)).await
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        self.retry(|_| self.inner.open(key)).await
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.retry(|_| self.inner.delete(key)).await
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.retry(|_| self.inner.delete_all(prefix)).await
    }
}

#[async_trait]
impl Queue for Retrying<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        self.retry(|_| self.inner.send(messages)).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.retry(|_| self.inner.receive(max, visibility)).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.retry(|_| self.inner.extend(receipt, visibility)).await
    }

    async fn put_back(&self, receipt: &Receipt, delay: Duration) -> Result<(), Fault> {
        self.retry(|_| self.inner.put_back(receipt, delay)).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.retry(|_| self.inner.delete(receipt)).await
    }

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.retry(|_| self.inner.receive_dead_letters(max, visibility)).await
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.retry(|_| self.inner.depths()).await
    }

    /// Not repeated: an estimate is not worth waiting for.
    async fn about_depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.inner.about_depths().await
    }

    async fn wake(&self) -> Result<bool, Fault> {
        self.retry(|_| self.inner.wake()).await
    }

    fn max_delay(&self) -> Duration {
        self.inner.max_delay()
    }
}

#[async_trait]
impl Flow for Retrying<dyn Flow> {
    async fn start(&self, start: &FlowStart) -> Result<(), Fault> {
        self.retry(|_| self.inner.start(start)).await
    }

    async fn pages_settled(&self, job: &JobId) -> Result<(), Fault> {
        self.retry(|_| self.inner.pages_settled(job)).await
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        self.retry(|_| self.inner.wake(job)).await
    }

    async fn remind(&self, job: &JobId, state: State) -> Result<(), Fault> {
        self.retry(|_| self.inner.remind(job, state)).await
    }
}
