//! Events that this process has stored and not published yet, as it remembers them.
//!
//! The store knows them too, by their mark, and lists them in an index. That index lags behind on AWS,
//! and to ask it costs a read for what is known here anyway. It is for those whom memory can't help:
//! whoever takes over from the dead, and this process where a reply was lost or there were too many.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::{self, Notify};

use crate::{
    events::trail,
    ports::records::{Batch, Change, Item},
    time::after,
};

/// As many as are remembered while the bus can't be reached; the others are marked, and found.
const MOST: usize = 1000;

#[derive(Default)]
pub struct Outbox {
    events: Mutex<Events>,
    added: Notify,
    /// Whoever publishes has it, so that order is kept.
    pub turn: sync::Mutex<()>,
}

#[derive(Default)]
struct Events {
    waiting: Vec<Item>,
    /// There were more than are remembered.
    more: bool,
    /// When the index was asked last.
    asked: Option<Timestamp>,
}

impl Outbox {
    /// Takes note of the events in a batch that was written; false where there are none.
    pub fn add(&self, batch: Batch) -> bool {
        let Batch { stamp, changes } = batch;
        let mut stored = changes.into_iter().filter_map(|change| match change {
            Change::Put { draft, when } if trail::is_unpublished(&draft) => {
                Some(Item { draft, version: when.next_version(), stamp: stamp.clone() })
            }
            _ => None,
        });
        let mut events = self.events();
        let before = events.waiting.len();
        events.waiting.extend(stored.by_ref().take(MOST.saturating_sub(before)));
        let more = stored.next().is_some();
        events.more |= more;
        let added = more || events.waiting.len() > before;
        drop(events);
        if added {
            self.added.notify_one();
        }
        added
    }

    /// Ends when events were added since the last time.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    pub fn is_empty(&self) -> bool {
        self.events().waiting.is_empty()
    }

    /// Those that wait, oldest first.
    pub fn waiting(&self) -> Vec<Item> {
        let mut waiting = self.events().waiting.clone();
        waiting.sort_by(|a, b| place(a).cmp(&place(b)));
        waiting
    }

    /// They are published.
    pub fn forget(&self, published: &[Item]) {
        self.events().waiting.retain(|item| !published.iter().any(|other| other.draft.key == item.draft.key));
    }

    /// Were there more than are remembered, or has nobody asked the index for so long?
    pub fn needs_index_scan(&self, now: Timestamp, for_long: Duration) -> bool {
        let mut events = self.events();
        let asked = *events.asked.get_or_insert(now);
        events.more || after(asked, for_long) <= now
    }

    /// The index was asked at that time.
    pub fn mark_scanned(&self, asked: Timestamp) {
        let mut events = self.events();
        (events.more, events.asked) = (false, Some(asked));
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(item: &Item) -> Option<&str> {
    item.draft.state_index.as_ref().map(|entry| entry.sort.as_str())
}
