//! The stored images of prepared ranges.

use futures::stream;
use futures::{StreamExt, TryStreamExt};

use crate::{
    ids::{JobId, PageNumber},
    job::{Job, PageRange, StepCode, StepError, message::ImageRef},
    keys::blob,
    ports::blobs::Blobs,
    prepare::ranges::CONCURRENT_READS,
};

/// The images of a range; `None` if it is not rendered yet.
pub async fn stored_images(
    blobs: &dyn Blobs,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<(PageNumber, ImageRef)>>, StepError> {
    let key = blob::range_images(job, range.first, range.last);
    let Some(bytes) = blobs.get(&key).await? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| StepError::Broken {
        code: StepCode::StoredImages,
        reason: format!("{key}: {error}"),
    })
}

/// The image of a page; `None` if it was not rendered.
pub async fn stored_image(
    blobs: &dyn Blobs,
    job: &Job,
    page: PageNumber,
) -> Result<Option<ImageRef>, StepError> {
    let Some(range) = job.survey.as_ref().and_then(|survey| survey.range_of(page)) else { return Ok(None) };
    let images = stored_images(blobs, &job.id, range).await?.unwrap_or_default();
    Ok(images.into_iter().find(|(number, _)| *number == page).map(|(_, image)| image))
}

/// The images of several ranges, in their order; `None` for a range that is not rendered yet.
pub async fn all_stored_images(
    blobs: &dyn Blobs,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<(PageNumber, ImageRef)>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| stored_images(blobs, job, range)).collect();
    stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await
}
