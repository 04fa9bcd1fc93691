//! How many pages wait, as far as a worker can know.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::PageReader;
use crate::{job::Job, time::after};

const CACHED_FOR: Duration = Duration::from_secs(1);

/// The pages that wait in the queue, counted at most once a second.
#[derive(Clone, Default)]
pub struct Backlog(Arc<Mutex<Option<(Timestamp, u64)>>>);

impl Backlog {
    /// Pages that wait for a model, at most: those in the queue, or where the queue can't be counted, all of
    /// the job's.
    pub async fn pages(&self, reader: &PageReader, job: &Job) -> u64 {
        let now = reader.store.clock.now();
        let recent = *self.0.lock();
        if let Some((_, pages)) = recent.filter(|(at, _)| now < after(*at, CACHED_FOR)) {
            return pages;
        }
        match reader.queue.depths().await {
            Ok(depths) if !depths.is_empty() => {
                let pages = depths.iter().map(|(_, pages)| pages).sum();
                *self.0.lock() = Some((now, pages));
                pages
            }
            Ok(_) | Err(_) => job.plan.as_ref().map_or(0, |plan| u64::from(plan.ai_pages)),
        }
    }
}
