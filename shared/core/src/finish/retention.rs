//! Retention: removes the content of jobs that ended long ago. The job, its trail, hashes and costs stay.

use std::time::Duration;

use futures::{StreamExt, stream};
use tracing::{info, warn};

use super::delete::delete_content;
use crate::{
    dead_letters,
    event::Actor,
    events::Store,
    finish::Finisher,
    ids::JobId,
    job::{JobEvent, StepCode, StepError, jobs},
    keys::record,
    ports::{blobs::Blobs, records::Change},
    time::{after, within},
};

/// Jobs that are read from the index together.
const BATCH_SIZE: usize = 100;
/// Jobs whose content is removed concurrently.
const CONCURRENT_REMOVALS: usize = 8;
/// Records with up to 100 KiB of text each, deleted in one transaction.
const RECORDS_PER_WRITE: usize = 25;
/// How often a long-lived process looks for content to remove: every 10 minutes, or more often where content is
/// kept for a short time only.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(600);
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(10);

fn check_interval(retention: Option<Duration>) -> Duration {
    retention.map_or(MAX_CHECK_INTERVAL, |kept| (kept / 4).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL))
}

/// Removes the content of one batch of jobs that ended longer ago than `DATA_RETENTION`; returns how many. One
/// job whose content can't be removed does not keep the others. Messages that can't be read belong to no job: their
/// dead letters are purged after the same time.
pub async fn remove_expired(finisher: &Finisher) -> Result<usize, StepError> {
    let Some(retention) = finisher.settings.data_retention else { return Ok(0) };
    let (store, blobs) = (&finisher.store, finisher.blobs.as_ref());
    let now = store.clock.now();
    for dead_letter in dead_letters::old_unreadable(store, retention, BATCH_SIZE).await? {
        dead_letters::purge(store, &dead_letter.id, "retention").await?;
    }
    let ended = jobs::ended(store, BATCH_SIZE).await?.into_iter();
    let expired = ended.take_while(|job| job.finished_at.is_some_and(|at| after(at, retention) <= now));
    let removals = expired.map(|job| async move { remove_content(store, blobs, &job.id, "retention").await });
    let mut removals = stream::iter(removals.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_REMOVALS);
    let (mut removed, mut first_error) = (0, None);
    while let Some(one) = removals.next().await {
        match one {
            Ok(()) => removed += 1,
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(removed), Err)
}

/// Removes content that has expired, one batch after the other, for at most `time`; returns how many jobs'.
pub async fn remove_for(finisher: &Finisher, time: Duration) -> Result<usize, StepError> {
    let mut removed = 0;
    let all = async {
        loop {
            let some = remove_expired(finisher).await?;
            removed += some;
            if some < BATCH_SIZE {
                return Ok::<(), StepError>(());
            }
        }
    };
    within(finisher.store.clock.as_ref(), time, all).await.unwrap_or(Ok(()))?;
    Ok(removed)
}

/// Removes everything that holds content of a job that has ended. The job says so first, so that nothing redrives
/// or heals it meanwhile. After a crash it is completed by calling this again: the job is listed until the last
/// part is gone.
pub async fn remove_content(store: &Store, blobs: &dyn Blobs, id: &JobId, by: &str) -> Result<(), StepError> {
    let marked = jobs::advance(store, Actor::Finalize, id, |job| match job.state.is_terminal() {
        true if job.content_removed_at.is_none() => vec![JobEvent::ContentRemoved { by: by.to_owned() }],
        _ => vec![],
    });
    let job = marked.await?.value;
    if job.content_removed_at.is_none() {
        let reason = format!("the content of a job that is {} can't be removed; cancel it first", job.state);
        return Err(StepError::Broken { code: StepCode::JobIsOpen, reason });
    }
    delete_content(store, blobs, &job, by).await?;
    let partition = record::job_partition(id);
    for prefix in [
        record::PAGES,
        record::UNCLAIMED_CALLS,
        record::JOB_UPLOADS,
        record::JOB_DELIVERIES,
        record::PASSWORD,
        record::HEALING,
    ] {
        loop {
            let listing = store.records.list(&partition, prefix, None, RECORDS_PER_WRITE).await?;
            if listing.items.is_empty() {
                break;
            }
            let delete = |item: crate::ports::records::Item| Change::Delete {
                key: item.draft.key,
                version: item.version,
            };
            // Refused when a late page was just written: the next pass finds it.
            store.write(listing.items.into_iter().map(delete).collect()).await?;
        }
    }
    jobs::unlist(store, id).await?;
    info!(job = %id, by, "content removed");
    Ok(())
}

/// Removes content as it expires, until it is dropped.
pub async fn run(finisher: &Finisher) {
    loop {
        match remove_expired(finisher).await {
            Ok(BATCH_SIZE) => continue,
            Ok(_) => {}
            Err(error) => warn!(%error, "expired content not removed yet"),
        }
        finisher.store.clock.sleep(check_interval(finisher.settings.data_retention)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_is_kept_for_a_short_time_is_removed_soon() {
        let seconds = |retention: Option<u64>| check_interval(retention.map(Duration::from_secs)).as_secs();
        assert_eq!([None, Some(30 * 24 * 3600), Some(120), Some(1)].map(seconds), [600, 600, 30, 10]);
    }
}
