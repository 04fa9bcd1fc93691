//! The events that this process has stored and not published yet, in memory.
//!
//! The store lists them too, in an index by node. That index lags behind on AWS, and reading it costs a
//! request for what this process knows already. It is read where memory can't help: by the process that
//! takes over from a dead one, and by this process after a lost response or an overflow.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{self, Notify};

use crate::{
    events::trail,
    ports::records::{Batch, Change, Item},
    time::after,
};

/// Events in memory while the bus can't be reached; further ones are found through the index.
const MAX_WAITING: usize = 1000;

#[derive(Default)]
pub struct Outbox {
    events: Mutex<Events>,
    added: Notify,
    /// Held while events are published, so that their order is kept.
    pub publishing: sync::Mutex<()>,
}

#[derive(Default)]
struct Events {
    waiting: Vec<Item>,
    /// More than [`MAX_WAITING`] events were added.
    overflowed: bool,
    scanned_at: Option<Timestamp>,
}

impl Outbox {
    /// Adds the events of a written batch; returns false if it has none.
    pub fn add(&self, batch: Batch) -> bool {
        let Batch { stamp, changes } = batch;
        let mut stored = changes.into_iter().filter_map(|change| match change {
            Change::Put { draft, when } if trail::is_unpublished(&draft) => {
                Some(Item { draft, version: when.next_version(), stamp: stamp.clone() })
            }
            _ => None,
        });
        let mut events = self.events.lock();
        let before = events.waiting.len();
        events.waiting.extend(stored.by_ref().take(MAX_WAITING.saturating_sub(before)));
        let overflowed = stored.next().is_some();
        events.overflowed |= overflowed;
        let added = overflowed || events.waiting.len() > before;
        drop(events);
        if added {
            self.added.notify_one();
        }
        added
    }

    /// Waits until events were added since the last call.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    pub fn is_empty(&self) -> bool {
        self.events.lock().waiting.is_empty()
    }

    /// The unpublished events, oldest first.
    pub fn waiting(&self) -> Vec<Item> {
        let mut waiting = self.events.lock().waiting.clone();
        waiting.sort_by(|a, b| position(a).cmp(&position(b)));
        waiting
    }

    /// Removes published events.
    pub fn remove(&self, published: &[Item]) {
        let is_published = |item: &Item| published.iter().any(|other| other.draft.key == item.draft.key);
        self.events.lock().waiting.retain(|item| !is_published(item));
    }

    /// Whether the index may list events that are not in memory: after an overflow, and once per
    /// `interval`.
    pub fn needs_index_scan(&self, now: Timestamp, interval: Duration) -> bool {
        let mut events = self.events.lock();
        let scanned_at = *events.scanned_at.get_or_insert(now);
        events.overflowed || after(scanned_at, interval) <= now
    }

    /// Records that the index was read at that time.
    pub fn mark_scanned(&self, at: Timestamp) {
        let mut events = self.events.lock();
        (events.overflowed, events.scanned_at) = (false, Some(at));
    }
}

fn position(item: &Item) -> Option<&str> {
    item.draft.state_index.as_ref().map(|entry| entry.sort.as_str())
}
