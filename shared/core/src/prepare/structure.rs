//! The structure of a document: found once when all text is read, and applied to every page.

use crate::{
    document::{Findings, PageBlocks, plain_text},
    ids::JobId,
    job::{Job, StepError, encode},
    keys::blob,
    ports::blobs::Blobs,
    prepare::{
        Preparer,
        inspect::inspect,
        ranges::{StoredPage, ranges_as_read},
    },
};

/// Finds the structure of a document whose pages are read, and stores it. Of several callers the first wins.
pub(super) async fn store_findings(
    blobs: &dyn Blobs,
    job: &JobId,
    stored: &[Option<Vec<StoredPage>>],
) -> Result<Findings, StepError> {
    let findings = find(stored.iter().flatten().flatten());
    blobs.put_new(&blob::structure(job), encode(&findings)?).await?;
    Ok(findings)
}

/// Stores the findings, unless they are stored or some text is not read yet.
pub(super) async fn ensure_findings(preparer: &Preparer, job: &Job) -> Result<(), StepError> {
    let blobs = preparer.blobs.as_ref();
    if blobs.get(&blob::structure(&job.id)).await?.is_some() {
        return Ok(());
    }
    let stored = ranges_as_read(blobs, &job.id, &inspect(preparer, job).await?).await?;
    if stored.iter().all(Option::is_some) {
        store_findings(blobs, &job.id, &stored).await?;
    }
    Ok(())
}

/// The findings that are stored; `None` before all text is read.
pub(super) async fn findings(blobs: &dyn Blobs, job: &JobId) -> Result<Option<Findings>, StepError> {
    let stored = blobs.get(&blob::structure(job)).await?;
    Ok(stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

pub(super) fn find<'a>(pages: impl Iterator<Item = &'a StoredPage>) -> Findings {
    let pages: Vec<PageBlocks<'_>> = pages
        .map(|page| PageBlocks {
            number: page.page.get(),
            page: page.area,
            blocks: &page.blocks,
            images: &page.images,
        })
        .collect();
    Findings::of(&pages)
}

impl StoredPage {
    /// Gives the blocks their final kinds and levels, takes page headers, footers and numbers out of the text, and
    /// forgives images that are on most pages. A page without blocks keeps its text.
    pub(super) fn complete(&mut self, findings: &Findings) {
        self.reason = findings.reason(self.reason, self.area, &self.images);
        if !self.blocks.is_empty() {
            findings.apply(self.page.get(), self.area, &mut self.blocks);
            self.text = plain_text(&self.blocks);
        }
    }
}
