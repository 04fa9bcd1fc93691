//! How many pages wait, as far as a worker can know.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::PageReader;
use crate::{ids::Priority, job::Job, time::after};

const CACHED_FOR: Duration = Duration::from_secs(1);

/// The pages that wait in each lane of the queue, counted at most once a second.
#[derive(Clone, Default)]
pub struct Backlog(Arc<Mutex<Option<Counted>>>);

type Counted = (Timestamp, Vec<(Priority, u64)>);

impl Backlog {
    /// Pages that wait for a model with a page of this priority or before it, at most: those in the queue, or
    /// where the queue can't be counted, all of the job's.
    pub async fn pages(&self, reader: &PageReader, job: &Job, priority: Priority) -> u64 {
        let now = reader.store.clock.now();
        let in_front = |depths: &[(Priority, u64)]| {
            depths.iter().filter(|(lane, _)| *lane >= priority).map(|(_, pages)| pages).sum()
        };
        if let Some((_, depths)) = self.0.lock().as_ref().filter(|(at, _)| now < after(*at, CACHED_FOR)) {
            return in_front(depths);
        }
        match reader.queue.depths().await {
            Ok(depths) if !depths.is_empty() => {
                let pages = in_front(&depths);
                *self.0.lock() = Some((now, depths));
                pages
            }
            Ok(_) | Err(_) => job.plan.as_ref().map_or(0, |plan| u64::from(plan.ai_pages)),
        }
    }
}
