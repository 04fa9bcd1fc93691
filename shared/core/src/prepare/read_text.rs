//! Reads the text of every page, range by range.

use crate::{
    ids::PageNumber,
    job::{Job, PageRange, StepError, encode, telemetry as job_telemetry},
    keys::blob,
    ports::pdf::RenderPages,
    prepare::{
        Preparer,
        inspect::{inspect, read},
        ranges::StoredPage,
    },
    telemetry::metrics::{Operation, measured},
};

/// Reads the text of a range and stores it, unless it is stored already.
pub async fn read_range(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_text(&job.id, range.first, range.last);
    if preparer.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    let work =
        job_telemetry::read_text(&preparer.store, job, range).run(store_texts(preparer, job, range, &key));
    let priority = job.received.options.priority;
    measured(preparer.store.clock.as_ref(), Operation::Text, priority, work).await
}

pub(super) async fn store_texts(
    preparer: &Preparer,
    job: &Job,
    range: &PageRange,
    key: &str,
) -> Result<(), StepError> {
    let pages: Vec<PageNumber> = range.pages.pages(u32::MAX).collect();
    let readings = read(preparer, job, &pages, RenderPages::None).await?;
    let stored: Vec<StoredPage> = readings.into_iter().map(StoredPage::from).collect();
    preparer.blobs.put_new(key, encode(&stored)?).await?;
    Ok(())
}

pub(super) async fn read_texts(preparer: &Preparer, job: &Job) -> Result<(), StepError> {
    for range in inspect(preparer, job).await? {
        read_range(preparer, job, &range).await?;
    }
    Ok(())
}
