use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    ports::{
        Fault,
        clock::Clock,
        records::{Batch, Change, Index, Item, Key, Listing, Records, Written},
    },
    time::after,
};
use jiff::Timestamp;

#[derive(Default)]
pub struct MemoryRecords {
    items: Mutex<BTreeMap<Key, Item>>,
    lag: Option<Lag>,
}

/// Indexes that lag behind the records, like DynamoDB's.
struct Lag {
    clock: Arc<dyn Clock>,
    by: Duration,
    /// The record before each write that the indexes do not show yet, oldest first.
    unseen: Mutex<VecDeque<(Timestamp, Key, Option<Item>)>>,
}

impl Lag {
    fn unseen(&self) -> MutexGuard<'_, VecDeque<(Timestamp, Key, Option<Item>)>> {
        let mut unseen = self.unseen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = self.clock.now();
        while unseen.front().is_some_and(|(at, ..)| after(*at, self.by) <= now) {
            unseen.pop_front();
        }
        unseen
    }
}

impl MemoryRecords {
    /// Records whose indexes show a write only after `by`.
    pub fn lagging(clock: Arc<dyn Clock>, by: Duration) -> Self {
        Self { lag: Some(Lag { clock, by, unseen: Mutex::default() }), ..Self::default() }
    }

    /// Everything that `pick` selects, as it was before the writes that the indexes do not show yet.
    fn indexed<T>(&self, lag: Option<&Lag>, pick: impl Fn(&Item) -> Option<T>) -> Vec<T> {
        let mut past: BTreeMap<Key, Option<Item>> = BTreeMap::new();
        for (_, key, before) in lag.iter().flat_map(|lag| lag.unseen().clone()) {
            past.entry(key).or_insert(before);
        }
        let items = self.items();
        let present = items.iter().filter(|(key, _)| !past.contains_key(key)).map(|(_, item)| item);
        present.chain(past.values().flatten()).filter_map(pick).collect()
    }

    /// Lists an index without lag, for a test's own observer.
    pub fn list_index_without_lag(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Listing {
        self.listed(None, index, partition, after, descending, limit)
    }

    fn listed(
        &self,
        lag: Option<&Lag>,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Listing {
        let mut found: Vec<(String, Item)> = self.indexed(lag, |item| {
            let entry = match index {
                Index::Tenant => item.draft.tenant_index.as_ref(),
                Index::State => item.draft.state_index.as_ref(),
            }?;
            let sort = entry.sort.as_str();
            let further = after.is_none_or(|after| if descending { sort < after } else { sort > after });
            (entry.partition == partition && further).then(|| (sort.to_owned(), item.clone()))
        });
        found.sort_by(|(a, _), (b, _)| if descending { b.cmp(a) } else { a.cmp(b) });
        page(found, limit)
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<Key, Item>> {
        self.items.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Every record, for tests that check all of them.
    pub fn dump(&self) -> Vec<Item> {
        self.items().values().cloned().collect()
    }

    /// Overwrites a record without a new version, to simulate tampering.
    pub fn forge(&self, key: &Key, body: String) {
        if let Some(item) = self.items().get_mut(key) {
            item.draft.body = body;
        }
    }
}

#[async_trait]
impl Records for MemoryRecords {
    async fn get(&self, key: &Key) -> Result<Option<Item>, Fault> {
        Ok(self.items().get(key).cloned())
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Fault> {
        let items = self.items();
        Ok(keys.iter().map(|key| items.get(key).cloned()).collect())
    }

    async fn list(
        &self,
        partition: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Listing, Fault> {
        let found: Vec<(String, Item)> = self
            .items()
            .iter()
            .filter(|(key, _)| key.partition == partition && key.sort.starts_with(prefix))
            .filter(|(key, _)| after.is_none_or(|after| key.sort.as_str() > after))
            .take(limit + 1)
            .map(|(key, item)| (key.sort.clone(), item.clone()))
            .collect();
        Ok(page(found, limit))
    }

    async fn list_index(
        &self,
        index: Index,
        partition: &str,
        after: Option<&str>,
        descending: bool,
        limit: usize,
    ) -> Result<Listing, Fault> {
        Ok(self.listed(self.lag.as_ref(), index, partition, after, descending, limit))
    }

    async fn write(&self, batch: &Batch) -> Result<Written, Fault> {
        let mut items = self.items();
        for (index, change) in batch.changes.iter().enumerate() {
            let existing = items.get(change.key());
            if !change.when().holds(existing.map(|item| item.version)) {
                return Ok(Written::Refused { index, existing: existing.cloned().map(Box::new) });
            }
        }
        for change in &batch.changes {
            if let Some(lag) = &self.lag {
                let (key, now) = (change.key().clone(), lag.clock.now());
                let before = items.get(&key).cloned();
                lag.unseen().push_back((now, key, before));
            }
            match change {
                Change::Put { draft, when } => {
                    let item = Item {
                        draft: draft.clone(),
                        version: when.next_version(),
                        stamp: batch.stamp.clone(),
                    };
                    items.insert(draft.key.clone(), item);
                }
                Change::Delete { key, .. } => {
                    items.remove(key);
                }
            }
        }
        Ok(Written::Applied)
    }
}

fn page(mut found: Vec<(String, Item)>, limit: usize) -> Listing {
    let more = found.len() > limit;
    found.truncate(limit);
    let next = if more { found.last().map(|(sort, _)| sort.clone()) } else { None };
    Listing { items: found.into_iter().map(|(_, item)| item).collect(), next }
}
