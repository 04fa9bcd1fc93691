//! Reports settled pages: to the flow that waits for the last one, and to results that were published without them.

use std::{collections::BTreeSet, time::Duration};

use super::{PageReader, countdowns, dispatch::Disposition, give_up, pages};
use crate::{
    job::{Halt, StepError, jobs, message::PageMessage},
    ports::queue::Delivery,
    time::until,
};

/// Completes what a worker that settled the page may not have done before it died: the page leaves its
/// countdown, its flow continues if it was the last one, and a late page is published.
///
/// A worker that has the page, or had it and is slow, may yet settle it and die. So its message comes back until
/// the lease is over, and then takes the page from it.
pub(super) async fn report_settled(
    reader: &PageReader,
    delivery: &Delivery,
    message: &PageMessage,
) -> Result<Disposition, StepError> {
    let store = &reader.store;
    let Some(found) = jobs::find(store, &message.job_id).await? else { return Ok(Disposition::Done) };
    let (job, now) = (&found.value, store.clock.now());
    let mut page = pages::find(store, &job.id, message.page_id).await?;
    if let Some(held) = page.as_ref().filter(|page| page.value.outcome.is_none())
        && let Some(lease) = &held.value.lease
    {
        if !job.is_over() || lease.is_valid(now) {
            return Ok(Disposition::Later(until(now, lease.until).max(Duration::from_secs(1))));
        }
        pages::release(store, held).await?;
        page = pages::find(store, &job.id, message.page_id).await?;
    }
    // Without an outcome it was settled by its job's end.
    if let Some(page) = page.as_ref().filter(|page| page.value.outcome.is_none())
        && job.halt != Some(Halt::Cancelled)
    {
        let calls = page.value.earlier_calls.iter();
        give_up::on_unknown_error(reader, delivery, message, calls).await?;
    }
    if job.is_over() {
        reader.late_pages.publish(&job.id).await?;
        return Ok(Disposition::Done);
    }
    if page.is_some_and(|page| page.value.outcome.is_some()) {
        countdowns::remove(store, job, &BTreeSet::from([message.page_id])).await?;
    }
    if countdowns::is_complete(store, job).await? {
        reader.flow.pages_settled(&job.id).await?;
    }
    Ok(Disposition::Done)
}

/// Publishes a page that was settled after its job's result: the result is healed. Settled first, read second:
/// what settles after a result is assembled and before it is published is found when it is published.
pub(super) async fn publish_if_late(reader: &PageReader, message: &PageMessage) -> Result<(), StepError> {
    match jobs::find(&reader.store, &message.job_id).await? {
        Some(job) if job.value.is_over() => reader.late_pages.publish(&message.job_id).await,
        _ => Ok(()),
    }
}
