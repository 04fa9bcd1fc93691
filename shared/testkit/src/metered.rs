//! Ports that count what their calls would cost on AWS: units of DynamoDB, requests of S3 and SQS, events.
//!
//! The rules are those of the adapters in `shared/aws` and of AWS's price lists. Sizes of items are those of their
//! attributes, so that a test over memory counts what a table would be charged for.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    event::Event,
    ids::Priority,
    ports::{
        Fault,
        blobs::{Blobs, LocalFile, Stored},
        bus::Bus,
        queue::{Delivery, Outgoing, Queue, Receipt},
        records::{Batch, Change, Draft, Index, IndexEntry, Item, Key, Listing, Records, Written},
    },
};
use parking_lot::Mutex;

/// Partitions of DynamoDB that one listing of an index reads, in `shared/aws/src/records/index.rs`.
const INDEX_PARTITIONS: u64 = 9;
/// Names and small attributes of an item: version, stamp, keys.
const ATTRIBUTE_BYTES: usize = 80;
/// Messages of one request to SQS.
const MESSAGES_PER_REQUEST: usize = 10;

/// What was used since the last [`Meter::take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub write_units: u64,
    pub read_units: u64,
    pub puts: u64,
    pub gets: u64,
    pub messages: u64,
    pub events: u64,
    /// Write units by partition of the port, of the table and of both indexes; an index's name comes first.
    pub partitions: BTreeMap<String, u64>,
}

#[derive(Default)]
pub struct Meter(Mutex<Used>);

impl Meter {
    pub fn take(&self) -> Used {
        std::mem::take(&mut *self.0.lock())
    }

    fn add(&self, count: impl FnOnce(&mut Used)) {
        count(&mut self.0.lock());
    }

    fn write(&self, partition: String, units: u64) {
        self.add(|used| {
            used.write_units += units;
            *used.partitions.entry(partition).or_default() += units;
        });
    }
}

/// A port whose calls are counted.
pub struct Metered<P: ?Sized> {
    inner: Arc<P>,
    meter: Arc<Meter>,
}

impl<P: ?Sized> Metered<P> {
    pub fn new(inner: Arc<P>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

fn size(draft: &Draft) -> usize {
    let entry =
        |entry: &Option<IndexEntry>| entry.as_ref().map_or(0, |one| one.partition.len() + one.sort.len());
    let key = draft.key.partition.len() + draft.key.sort.len();
    ATTRIBUTE_BYTES + key + draft.body.len() + entry(&draft.tenant_index) + entry(&draft.state_index)
}

fn units(bytes: usize, unit: usize) -> u64 {
    bytes.div_ceil(unit).max(1) as u64
}

fn write_units(bytes: usize) -> u64 {
    units(bytes, 1024)
}

fn read_units(items: &[Item]) -> u64 {
    units(items.iter().map(|item| size(&item.draft)).sum(), 4096)
}

/// Units of an index that projects whole items, or keys only.
fn index_units(
    before: Option<(&IndexEntry, usize)>,
    after: Option<(&IndexEntry, usize)>,
    has_keys_only: bool,
) -> u64 {
    let one = |bytes: usize| if has_keys_only { 1 } else { write_units(bytes) };
    match (before, after) {
        (None, None) => 0,
        (None, Some((_, bytes))) | (Some((_, bytes)), None) => one(bytes),
        (Some((old, _)), Some((new, _))) if old == new && has_keys_only => 0,
        (Some((old, was)), Some((new, is))) if old == new => one(was.max(is)),
        (Some((_, was)), Some((_, is))) => one(was) + one(is),
    }
}

/// The partitions that a change writes, of the table and of both indexes, with the units of each.
pub fn written(before: Option<&Item>, change: &Change, is_transaction: bool) -> Vec<(String, u64)> {
    let old = before.map(|item| &item.draft);
    let new = match change {
        Change::Put { draft, .. } => Some(draft),
        Change::Delete { .. } => None,
    };
    let bytes = |draft: Option<&Draft>| draft.map_or(0, size);
    let factor = if is_transaction { 2 } else { 1 };
    let units = factor * write_units(bytes(old).max(bytes(new)));
    let mut all = vec![(change.key().partition.clone(), units)];
    let indexes = [
        ("tenant", false, old.map(|draft| &draft.tenant_index), new.map(|draft| &draft.tenant_index)),
        ("work", true, old.map(|draft| &draft.state_index), new.map(|draft| &draft.state_index)),
    ];
    for (name, has_keys_only, was, is) in indexes {
        let was = was.and_then(Option::as_ref).map(|entry| (entry, bytes(old)));
        let is = is.and_then(Option::as_ref).map(|entry| (entry, bytes(new)));
        let units = index_units(was, is, has_keys_only);
        if let Some((entry, _)) = is.or(was).filter(|_| units > 0) {
            all.push((format!("{name}: {}", entry.partition), units));
        }
    }
    all
}

#[async_trait]
impl Records for Metered<dyn Records> {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        let item = self.inner.get(key).await?;
        self.meter.add(|used| used.read_units += read_units(item.as_slice()));
        Ok(item)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        let items = self.inner.get_many(keys).await?;
        let each: u64 = items.iter().map(|item| read_units(item.as_slice())).sum();
        self.meter.add(|used| used.read_units += each);
        Ok(items)
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let listing = self.inner.list(partition, prefix, after, limit).await?;
        self.meter.add(|used| used.read_units += read_units(&listing.items));
        Ok(listing)
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let listing = self.inner.list_index(index, partition, after, descending, limit).await?;
        // Half a unit for each partition, and for what is read from the index or the table.
        let items: u64 = listing.items.iter().map(|item| read_units(std::slice::from_ref(item))).sum();
        self.meter.add(|used| used.read_units += INDEX_PARTITIONS.div_ceil(2) + items);
        Ok(listing)
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut partitions = Vec::new();
        for change in &batch.changes {
            let before = self.inner.get(change.key()).await?;
            partitions.extend(written(before.as_ref(), change, batch.changes.len() > 1));
        }
        let written = self.inner.write(batch).await?;
        for (partition, units) in partitions {
            self.meter.write(partition, units);
        }
        Ok(written)
    }
}

#[async_trait]
impl Blobs for Metered<dyn Blobs> {
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<Stored, Fault> {
        self.meter.add(|used| used.puts += 1);
        self.inner.put_new(key, bytes).await
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<Stored, Fault> {
        self.meter.add(|used| used.puts += 1);
        self.inner.put_file(key, file).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        self.meter.add(|used| used.gets += 1);
        self.inner.get(key).await
    }

    async fn open(&self, key: &str) -> Result<Option<LocalFile>, Fault> {
        self.meter.add(|used| used.gets += 1);
        self.inner.open(key).await
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.inner.delete(key).await
    }

    async fn delete_all(&self, prefix: &str) -> Result<(), Fault> {
        self.meter.add(|used| used.puts += 1);
        self.inner.delete_all(prefix).await
    }
}

#[async_trait]
impl Queue for Metered<dyn Queue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        self.meter.add(|used| used.messages += messages.len().div_ceil(MESSAGES_PER_REQUEST) as u64);
        self.inner.send(messages).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.meter.add(|used| used.messages += 1);
        self.inner.receive(max, visibility).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), Fault> {
        self.meter.add(|used| used.messages += 1);
        self.inner.extend(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), Fault> {
        self.meter.add(|used| used.messages += 1);
        self.inner.delete(receipt).await
    }

    async fn receive_dead_letters(&self, max: usize, visibility: Duration) -> Result<Vec<Delivery>, Fault> {
        self.meter.add(|used| used.messages += 1);
        self.inner.receive_dead_letters(max, visibility).await
    }

    async fn wake(&self) -> Result<bool, Fault> {
        self.inner.wake().await
    }

    fn max_delay(&self) -> Duration {
        self.inner.max_delay()
    }

    async fn depths(&self) -> Result<Vec<(Priority, u64)>, Fault> {
        self.inner.depths().await
    }
}

#[async_trait]
impl Bus for Metered<dyn Bus> {
    async fn publish(&self, events: &[Event]) -> Result<(), Fault> {
        self.meter.add(|used| used.events += events.len() as u64);
        self.inner.publish(events).await
    }
}
