//! The stored text of prepared ranges.

use futures::stream;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::{
    document::{Block, Confidence, Doubt, PageBox, PageReading, Reason, WithoutImages},
    ids::{JobId, PageNumber},
    job::{PageRange, StepCode, StepError},
    keys::blob,
    ports::blobs::Blobs,
    prepare::structure::{find, findings},
};

/// How many ranges of a document are read concurrently: at its deadline, the result waits for all of them.
pub(super) const CONCURRENT_READS: usize = 16;

/// A page as it is stored with its range.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPage {
    pub page: PageNumber,
    pub reason: Reason,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    #[serde(rename = "box", default, skip_serializing_if = "PageBox::is_empty")]
    pub area: PageBox,
    /// What the text is made of; empty in ranges that an older version stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    /// Where images are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<PageBox>,
    #[serde(default)]
    pub confidence: Confidence,
    /// What lowers the confidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// What the page is if its images are on most pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_images: Option<WithoutImages>,
    /// Whether the text is what OCR recognized, which is stored apart from the ranges.
    #[serde(skip)]
    pub is_recognized: bool,
    /// Whether OCR may still change the text.
    #[serde(skip)]
    pub awaits_ocr: bool,
}

impl From<PageReading> for StoredPage {
    fn from(reading: PageReading) -> Self {
        let PageReading {
            number,
            text,
            page,
            blocks,
            images,
            reason,
            confidence,
            doubts,
            without_images,
            image: _,
            fault,
        } = reading;
        Self {
            page: number,
            reason,
            text,
            fault,
            area: page,
            blocks,
            images,
            confidence,
            doubts,
            without_images,
            is_recognized: false,
            awaits_ocr: false,
        }
    }
}

/// The pages of a range, completed by what is known of the whole document; `None` if it is not prepared yet.
pub async fn stored_range(
    blobs: &dyn Blobs,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<StoredPage>>, StepError> {
    let mut stored = range_as_read(blobs, job, range).await?;
    if let (Some(pages), Some(findings)) = (&mut stored, findings(blobs, job).await?) {
        pages.iter_mut().for_each(|page| page.complete(&findings));
    }
    Ok(stored)
}

/// The pages of several ranges, in their order and completed; `None` for a range that is not prepared yet.
pub async fn stored_ranges(
    blobs: &dyn Blobs,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<StoredPage>>>, StepError> {
    let mut stored = ranges_as_read(blobs, job, ranges).await?;
    // A job of an older version, or one that ended while its text was read, has no findings stored.
    let findings = match findings(blobs, job).await? {
        Some(findings) => findings,
        None => find(stored.iter().flatten().flatten()),
    };
    stored.iter_mut().flatten().flatten().for_each(|page| page.complete(&findings));
    Ok(stored)
}

async fn range_as_read(
    blobs: &dyn Blobs,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<StoredPage>>, StepError> {
    stored_pages(blobs, &blob::range_text(job, range.first, range.last)).await
}

/// The pages of several ranges as they were read one by one.
pub(super) async fn ranges_as_read(
    blobs: &dyn Blobs,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<StoredPage>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| range_as_read(blobs, job, range)).collect();
    stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await
}

/// The pages in the blob `key`; `None` if there is no such blob.
pub async fn stored_pages(blobs: &dyn Blobs, key: &str) -> Result<Option<Vec<StoredPage>>, StepError> {
    let Some(bytes) = blobs.get(key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StepError::Broken { code: StepCode::StoredText, reason: format!("{key}: {error}") })
}
