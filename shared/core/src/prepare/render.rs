//! Rendering the images of pages that may be sent with one.

use crate::{
    document::{Classification, PageImage, Reason},
    ids::{JobId, PageNumber},
    job::{Job, PageRange, StepError, encode, message::ImageRef, telemetry as job_telemetry},
    keys::blob,
    ports::{blobs::Blobs, pdf::RenderPages},
    prepare::{
        Preparer,
        inspect::read,
        ranges::{StoredPage, stored_range},
    },
};

/// Makes and stores the images of those pages of a range that may be sent with one. The list of
/// them comes last: when it is there, the range is done.
pub async fn render_range(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    // Nobody to send images to: making them would be the dearest part of the work for nothing.
    if preparer.settings.failover_order().providers.is_empty() {
        return Ok(());
    }
    make_images(preparer, job, range).await
}

/// The same for somebody who need not know whom the images will be sent to.
pub async fn make_images(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_images(&job.id, range.first, range.last);
    if preparer.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    job_telemetry::render(&preparer.store, job, range).around(store_images(preparer, job, range, &key)).await
}

pub(super) async fn store_images(
    preparer: &Preparer,
    job: &Job,
    range: &PageRange,
    key: &str,
) -> Result<(), StepError> {
    let stored = stored_range(preparer.blobs.as_ref(), &job.id, range).await?.unwrap_or_default();
    let pages: Vec<PageNumber> =
        stored.iter().filter(|page| wants_image(job, page)).map(|page| page.page).collect();
    let mut images = Vec::with_capacity(pages.len());
    if !pages.is_empty() {
        for reading in read(preparer, job, &pages, RenderPages::All).await? {
            if let Some(image) = reading.image {
                images.push((
                    reading.number,
                    store_image(preparer.blobs.as_ref(), &job.id, reading.number, image).await?,
                ));
            }
        }
    }
    preparer.blobs.put_new(key, encode(&images)?).await?;
    Ok(())
}

/// May this page be sent with an image? What the parser could not even read, it can't draw.
pub fn wants_image(job: &Job, page: &StoredPage) -> bool {
    let needs_eyes = page.reason.classification() == Classification::HasGraphics;
    page.reason != Reason::Unreadable && (needs_eyes || job.received.options.image_for_all)
}

pub(super) async fn store_image(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
    image: PageImage,
) -> Result<ImageRef, StepError> {
    let key = blob::page_image(job, page, image.format.extension());
    blobs.put_new(&key, image.bytes).await?;
    let (mime, width_px, height_px) = (image.format.mime().to_owned(), image.width_px, image.height_px);
    Ok(ImageRef { key, mime, width_px, height_px })
}

/// Draws a page for somebody who wants to look at it. Nothing is kept; an encrypted document can't
/// be drawn any more once its password is gone.
pub async fn draw(preparer: &Preparer, job: &Job, page: PageNumber) -> Result<Option<PageImage>, StepError> {
    let readings = read(preparer, job, &[page], RenderPages::All).await?;
    Ok(readings.into_iter().find(|reading| reading.number == page).and_then(|reading| reading.image))
}
