use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use everypage_core::ports::{
    Fault,
    records::{Batch, Change, Index, Item, Key, Listing, Records, Written},
};

#[derive(Default)]
pub struct MemoryRecords {
    items: Mutex<BTreeMap<Key, Item>>,
}

impl MemoryRecords {
    fn items(&self) -> MutexGuard<'_, BTreeMap<Key, Item>> {
        self.items.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Everything there is, for tests that look at the whole.
    pub fn dump(&self) -> Vec<Item> {
        self.items().values().cloned().collect()
    }

    /// Overwrites a record behind everybody's back, as a forger would.
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
        let mut found: Vec<(String, Item)> = self
            .items()
            .values()
            .filter_map(|item| {
                let entry = match index {
                    Index::Tenant => item.draft.tenant_index.as_ref(),
                    Index::State => item.draft.state_index.as_ref(),
                };
                entry
                    .filter(|entry| entry.partition == partition)
                    .map(|entry| (entry.sort.clone(), item.clone()))
            })
            .filter(|(sort, _)| {
                after.is_none_or(
                    |after| {
                        if descending { sort.as_str() < after } else { sort.as_str() > after }
                    },
                )
            })
            .collect();
        found.sort_by(|(a, _), (b, _)| if descending { b.cmp(a) } else { a.cmp(b) });
        Ok(page(found, limit))
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
