//! Renders the images of pages that may be sent to AI with an image.

use crate::{
    document::{ImageStyle, PageImage, Reason},
    ids::{JobId, PageNumber},
    job::{Job, PageRange, StepError, encode, message::ImageRef, passwords, telemetry as job_telemetry},
    keys::blob,
    ports::{
        blobs::Blobs,
        pdf::{ReadOptions, RenderPages},
    },
    prepare::{
        Preparer,
        inspect::{read, read_with},
        ranges::{StoredPage, stored_range},
        structure::ensure_findings,
    },
    settings::OcrPages,
    telemetry::metrics::{Operation, measured},
    tenants,
};

/// Renders the images of a range, unless no provider is configured: rendering is the most expensive part of
/// preparing, and without a provider no image is sent. OCR renders its own, except of an encrypted document, whose
/// password is deleted by then.
pub async fn render_range(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    if preparer.settings.failover_order().is_empty() {
        let settings = tenants::settings(&preparer.tenants, &job.received.tenant).await?;
        let is_encrypted = settings.ocr != OcrPages::Off
            && passwords::open(&preparer.store, preparer.vault.as_ref(), &job.id).await?.is_some();
        if !is_encrypted {
            return Ok(());
        }
    }
    render_images(preparer, job, range).await
}

/// Renders and stores the images of the pages in a range that may be sent with one. The list of the images is
/// stored last: if it exists, the range is complete.
pub async fn render_images(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_images(&job.id, range.first, range.last);
    if preparer.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    let work =
        job_telemetry::render(&preparer.store, job, range).run(store_images(preparer, job, range, &key));
    let priority = job.received.options.priority;
    measured(preparer.store.clock.as_ref(), Operation::Images, priority, work).await
}

pub(super) async fn store_images(
    preparer: &Preparer,
    job: &Job,
    range: &PageRange,
    key: &str,
) -> Result<(), StepError> {
    ensure_findings(preparer, job).await?;
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

/// Whether the page may be sent with an image. A page that the parser can't read can't be rendered either.
pub fn wants_image(job: &Job, page: &StoredPage) -> bool {
    let options = &job.received.options;
    page.reason != Reason::Unreadable
        && (options.image_for_all || options.ai_pages.needs_image(page.reason, page.confidence))
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

/// Resolution of the second image of a page, as a share of the first one's, and at most.
const SHARPER_PERCENT: u32 = 160;
const MAX_SHARPER_DPI: u32 = 300;

/// Renders a page once more with a higher resolution, for a model that has missed words. Fails where the
/// document can't be opened: without a parser, or when its password was deleted.
pub async fn render_sharper(
    preparer: &Preparer,
    job: &Job,
    page: PageNumber,
) -> Result<Option<PageImage>, StepError> {
    let style = job.received.options.image;
    let dpi = (style.dpi * SHARPER_PERCENT / 100).min(MAX_SHARPER_DPI);
    if dpi <= style.dpi {
        return Ok(None);
    }
    let options = ReadOptions { render: RenderPages::All, style: ImageStyle { dpi, ..style } };
    let readings = read_with(preparer, job, &[page], options).await?;
    Ok(readings.into_iter().find(|reading| reading.number == page).and_then(|reading| reading.image))
}

/// Renders a page for display, without storing the image. Fails for an encrypted document whose password was
/// deleted.
pub async fn render_page(
    preparer: &Preparer,
    job: &Job,
    page: PageNumber,
) -> Result<Option<PageImage>, StepError> {
    let readings = read(preparer, job, &[page], RenderPages::All).await?;
    Ok(readings.into_iter().find(|reading| reading.number == page).and_then(|reading| reading.image))
}
