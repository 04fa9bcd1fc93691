//! The structure of a document: found once when all text is read, and applied to every page.

use crate::{
    document::{Findings, PageBlocks, plain_text},
    ids::JobId,
    job::{StepError, encode},
    keys::blob,
    ports::blobs::Blobs,
    prepare::ranges::StoredPage,
};

/// Finds the structure of a document whose pages are read, and stores it. Of several callers the first wins.
pub(super) async fn store_findings(
    blobs: &dyn Blobs,
    job: &JobId,
    stored: &[Option<Vec<StoredPage>>],
) -> Result<(), StepError> {
    let findings = find(stored.iter().flatten().flatten());
    blobs.put_new(&blob::structure(job), encode(&findings)?).await?;
    Ok(())
}

fn find<'a>(pages: impl Iterator<Item = &'a StoredPage>) -> Findings {
    let pages: Vec<PageBlocks<'_>> = pages
        .map(|page| PageBlocks { number: page.page.get(), page: page.area, blocks: &page.blocks })
        .collect();
    Findings::of(&pages)
}

/// Completes the pages of a document: kinds and levels of blocks are final, and page headers, footers and numbers
/// are no part of the text. Pages without blocks stay as they are.
pub async fn complete(
    blobs: &dyn Blobs,
    job: &JobId,
    stored: &mut [Option<Vec<StoredPage>>],
) -> Result<(), StepError> {
    // A job of an older version, or one that ended while its text was read, has no findings stored.
    let known = blobs.get(&blob::structure(job)).await?;
    let known = known.and_then(|bytes| serde_json::from_slice::<Findings>(&bytes).ok());
    let findings = known.unwrap_or_else(|| find(stored.iter().flatten().flatten()));
    for page in stored.iter_mut().flatten().flatten().filter(|page| !page.blocks.is_empty()) {
        findings.apply(page.page.get(), page.area, &mut page.blocks);
        page.text = plain_text(&page.blocks);
    }
    Ok(())
}
