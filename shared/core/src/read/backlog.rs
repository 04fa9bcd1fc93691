//! How many pages wait, as far as a worker can know.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::PageReader;
use crate::{ids::Priority, job::Job, time::after};

const CACHED_FOR: Duration = Duration::from_secs(1);
/// Where counting takes a request per lane.
const ABOUT_CACHED_FOR: Duration = Duration::from_secs(5);

/// The pages that wait in each lane of the queue, counted at most once a second.
#[derive(Clone, Default)]
pub struct Backlog {
    counted: Arc<Mutex<Option<Counted>>>,
    /// One task at a time counts.
    counting: Arc<tokio::sync::Mutex<()>>,
}

/// A count, and until when it is good enough.
type Counted = (Timestamp, Vec<(Priority, u64)>);

impl Backlog {
    /// Pages that wait for a model with a page of this priority or before it, at most: those in the queue, or
    /// where they can't be counted, all of the job's.
    pub async fn pages(&self, reader: &PageReader, job: &Job, priority: Priority) -> u64 {
        let in_front = || {
            let (now, counted) = (reader.store.clock.now(), self.counted.lock());
            let (_, depths) = counted.as_ref().filter(|(until, _)| now < *until)?;
            Some(depths.iter().filter(|(lane, _)| *lane >= priority).map(|(_, pages)| *pages).sum::<u64>())
        };
        let of_job = job.plan.as_ref().map_or(0, |plan| u64::from(plan.ai_pages));
        if let Some(pages) = in_front() {
            return pages;
        }
        let _counting = self.counting.lock().await;
        if let Some(pages) = in_front() {
            return pages;
        }
        let mut counted = (CACHED_FOR, reader.queue.depths().await.unwrap_or_default());
        if counted.1.is_empty() {
            let about = reader.queue.about_depths().await;
            // Where it can't be counted now, it is not tried again for every page.
            let unknown = || vec![(Priority::Urgent, of_job)];
            counted =
                (ABOUT_CACHED_FOR, about.ok().filter(|depths| !depths.is_empty()).unwrap_or_else(unknown));
        }
        let (good_for, depths) = counted;
        *self.counted.lock() = Some((after(reader.store.clock.now(), good_for), depths));
        in_front().unwrap_or(of_job)
    }
}
