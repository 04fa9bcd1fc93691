//! Which pages OCR is to recognize, and when, on both backends: those without a sound text layer that no AI has read
//! and that were not recognized before.
//!
//! On one machine idle cores recognize them while models work, and then pages that a model has read, as long as others
//! are still with a model: what the models wrote is compared with it. On AWS that is done where it is needed: for pages
//! that were given up before the deadline, and shortly before the deadline for pages that no model has read yet.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use tracing::warn;

use crate::{
    finish::Finisher,
    ids::PageNumber,
    job::{Job, State, StepError},
    ports::ocr::OcrPriority,
    prepare::{self, Recognition, StoredPage},
    read::{outcome::Settlement, pages},
    settings::OcrPages,
    tenants,
    time::{until, within},
};

/// Time before the deadline in which the result is published: nothing is recognized then.
const PUBLISH_TIME: Duration = Duration::from_secs(5);
/// Pages that one function recognizes, some seconds of work.
const GROUP_PAGES: usize = 8;
/// More groups would be more than the history of an execution can hold.
const MAX_GROUPS: usize = 100;
const CONCURRENT_READS: usize = 16;

/// The pages of a job that are left to be recognized, in order.
pub async fn pending(finisher: &Finisher, job: &Job) -> Result<Vec<StoredPage>, StepError> {
    pending_among(finisher, job, |_| true).await
}

async fn pending_among(
    finisher: &Finisher,
    job: &Job,
    is_asked: impl Fn(PageNumber) -> bool,
) -> Result<Vec<StoredPage>, StepError> {
    let is_unread = |outcome: Option<&Settlement>| !outcome.is_some_and(Settlement::is_ai);
    unrecognized(finisher, job, is_asked, is_unread).await
}

/// The pages of a job that an AI read and nothing was compared with, in order. None where answers are not checked.
pub async fn unchecked(finisher: &Finisher, job: &Job) -> Result<Vec<StoredPage>, StepError> {
    if !tenants::settings(&finisher.preparer.tenants, &job.received.tenant).await?.check_answers {
        return Ok(vec![]);
    }
    unrecognized(finisher, job, |_| true, |outcome| outcome.is_some_and(Settlement::is_unchecked)).await
}

/// The pages that OCR may read and has not read yet, of those that were settled as wanted.
async fn unrecognized(
    finisher: &Finisher,
    job: &Job,
    is_asked: impl Fn(PageNumber) -> bool,
    is_wanted: impl Fn(Option<&Settlement>) -> bool,
) -> Result<Vec<StoredPage>, StepError> {
    let may_need = job.survey.as_ref().is_some_and(|survey| match survey.ocr {
        OcrPages::Off => false,
        OcrPages::Auto => survey.has_graphics > 0,
        OcrPages::Always => true,
    });
    if !may_need {
        return Ok(vec![]);
    }
    let blobs = finisher.blobs.as_ref();
    let mut found = prepare::to_recognize(blobs, job).await?;
    found.retain(|page| is_asked(page.page));
    let numbers: Vec<PageNumber> = found.iter().map(|page| page.page).collect();
    if numbers.is_empty() {
        return Ok(found);
    }
    let touched = pages::some(&finisher.store, &job.id, &numbers).await?;
    let outcome = |page: PageNumber| touched.get(&page).and_then(|page| page.outcome.as_ref());
    let checks: Vec<_> = found
        .into_iter()
        .filter(|page| is_wanted(outcome(page.page)))
        .map(|page| async move {
            let done = prepare::is_recognized(blobs, &job.id, page.page).await?;
            Ok::<_, StepError>((!done).then_some(page))
        })
        .collect();
    let left: Vec<Option<StoredPage>> = stream::iter(checks).buffered(CONCURRENT_READS).try_collect().await?;
    Ok(left.into_iter().flatten().collect())
}

/// Whether the result of a job whose pages are settled waits for OCR: pages are left, and there is time.
pub async fn is_needed(finisher: &Finisher, job: &Job) -> Result<bool, StepError> {
    let is_due = job.state == State::Approved && job.halt.is_none() && !time_left(finisher, job).is_zero();
    Ok(is_due && !pending(finisher, job).await?.is_empty())
}

/// The pages that are left to be recognized, in groups for several processes. None if there is no time left, or this
/// process has no OCR.
pub async fn groups(finisher: &Finisher, job: &Job) -> Result<Vec<Vec<PageNumber>>, StepError> {
    if job.halt.is_some() || job.state.is_terminal() || time_left(finisher, job).is_zero() {
        return Ok(vec![]);
    }
    let numbers: Vec<PageNumber> = pending(finisher, job).await?.into_iter().map(|page| page.page).collect();
    if numbers.is_empty() {
        return Ok(vec![]);
    }
    if let Some(reason) = prepare::why_no_ocr(&finisher.preparer, job).await? {
        warn!(reason, pages = numbers.len(), "pages without a text layer are not recognized");
        return Ok(vec![]);
    }
    let size = numbers.len().div_ceil(MAX_GROUPS).max(GROUP_PAGES);
    Ok(numbers.chunks(size).map(<[PageNumber]>::to_vec).collect())
}

/// Recognizes those of `numbers` that are left, until shortly before the deadline.
pub async fn recognize_group(
    finisher: &Finisher,
    job: &Job,
    numbers: &[PageNumber],
) -> Result<(), StepError> {
    let time = time_left(finisher, job);
    if job.halt.is_some() || job.state.is_terminal() || time.is_zero() {
        return Ok(());
    }
    let work = async {
        let found = pending_among(finisher, job, |page| numbers.contains(&page)).await?;
        let is_unavailable = AtomicBool::new(false);
        stream::iter(&found)
            .for_each_concurrent(finisher.preparer.ocr.parallel_pages(), |page| async {
                if !is_unavailable.load(Ordering::Relaxed) {
                    let done = recognize(finisher, job, page, OcrPriority::Needed).await;
                    is_unavailable.fetch_or(!done, Ordering::Relaxed);
                }
            })
            .await;
        Ok(())
    };
    within(finisher.store.clock.as_ref(), time, work).await.unwrap_or(Ok(()))
}

/// Recognizes a page; false if no page can be recognized here. Never fails the job: without OCR it has what it has.
pub async fn recognize(finisher: &Finisher, job: &Job, page: &StoredPage, priority: OcrPriority) -> bool {
    match prepare::recognize_page(&finisher.preparer, job, page, priority).await {
        Ok(Recognition::Stored) => true,
        Ok(Recognition::Unavailable(reason)) => {
            warn!(reason, "pages without a text layer are not recognized");
            false
        }
        Err(error) => {
            warn!(%error, page = page.page.get(), "page not recognized");
            true
        }
    }
}

fn time_left(finisher: &Finisher, job: &Job) -> Duration {
    until(finisher.store.clock.now(), job.deadline).saturating_sub(PUBLISH_TIME)
}
