//! The result of a job that is not published yet: the whole document as it stands.
//!
//! Everything is read and nothing is stored: it may be requested at any time and any number of times.

use crate::{
    events::Store,
    finish::{
        page_status::{PageStatus, WaitingPage},
        result::{PageInput, ResultDocument, metadata, page_result},
        results,
    },
    ids::PageNumber,
    job::{Job, StepError},
    ports::{Fault, blobs::Blobs},
    read::pages::{self, Page},
};
use jiff::Timestamp;

/// A page with its record, if a worker has touched it.
pub(super) type PageSoFar = (PageInput, Option<Page>);

/// The document as it stands, each page from its best source so far. `None` before the text of the document
/// is read, and after a result is published: that one is final and better.
pub async fn provisional(
    store: &Store,
    blobs: &dyn Blobs,
    job: &Job,
) -> Result<Option<ResultDocument>, StepError> {
    if job.survey.is_none() || job.result.is_some() {
        return Ok(None);
    }
    let inputs = results::inputs(store, blobs, job, false).await?;
    Ok(Some(assemble(job, store.clock.now(), inputs)))
}

fn assemble(job: &Job, now: Timestamp, inputs: Vec<PageSoFar>) -> ResultDocument {
    // Without a plan any page may still be sent.
    let is_planned = job.plan.is_some();
    let mut ai_pages = 0;
    let mut pages = Vec::with_capacity(inputs.len());
    for (input, record) in inputs {
        ai_pages += u32::from(input.sent_to_ai);
        let is_kept = is_planned && !input.sent_to_ai && !input.awaits_ocr;
        let status = PageStatus::of(record.as_ref(), is_kept, now);
        let mut page = page_result(input, None);
        page.status = Some(status);
        if let Some(record) = record.filter(|_| status != PageStatus::Settled) {
            page.waiting = record.waiting.filter(|_| status == PageStatus::Waiting).map(WaitingPage::from);
        }
        pages.push(page);
    }
    ResultDocument {
        provisional: true,
        job_id: job.id.clone(),
        version: 0,
        document: job.received.document.name.clone(),
        document_sha256: job.received.document.sha256.clone(),
        created_at: now,
        metadata: metadata(&pages, ai_pages, None),
        pages,
    }
}

/// Pages by status, without their text: what a progress line shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages that a worker processes.
    pub working: usize,
    /// Pages between two rounds.
    pub waiting: Vec<(PageNumber, WaitingPage)>,
    /// Settled pages of those that were sent to AI.
    pub settled: usize,
}

/// Counts the pages of a job that workers have touched.
pub async fn count_pages(store: &Store, job: &Job) -> Result<PageCounts, Fault> {
    let now = store.clock.now();
    let mut counts = PageCounts::default();
    for (number, record) in pages::all(store, &job.id).await? {
        match PageStatus::of(Some(&record.value), false, now) {
            PageStatus::Settled => counts.settled += 1,
            PageStatus::Working => counts.working += 1,
            PageStatus::Waiting => {
                counts.waiting.extend(record.value.waiting.map(|waiting| (number, waiting.into())));
            }
            PageStatus::Planned => {}
        }
    }
    Ok(counts)
}
