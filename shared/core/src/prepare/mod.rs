//! Opening the document and storing MuPDF's text of every page, range by range, then the images.
//!
//! Text comes first, for all pages, because it is what every page falls back to and takes a
//! hundredth of the time: when the deadline comes while images are still being made, no page is
//! without text.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::{
    document::{Classification, PageImage, PageReading, Reason},
    events::{Store, actor::Actor},
    ids::{JobId, PageNumber},
    job::{
        Job, JobEvent, PageRange, State, StepCode, StepError, Survey, jobs, message::ImageRef, passwords,
        selection::PageSelection, telemetry as job_telemetry,
    },
    keys::blob,
    ports::{
        Fault,
        blobs::{Blobs, LocalFile},
        pdf::{Pdf, PdfError, ReadOptions, RenderPages},
        vault::Vault,
    },
    settings::Settings,
    tenants::{self, Tenants},
    time::{after, within},
};

/// A flow that lives finalizes its job sooner than this after the deadline.
const LATE: Duration = Duration::from_secs(5);

/// Ranges of a large document that are fetched side by side: at its deadline somebody waits for all of them.
const READ_AT_ONCE: usize = 16;

/// What preparing a document needs.
#[derive(Clone)]
pub struct Preparer {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub pdf: Arc<dyn Pdf>,
    pub vault: Arc<dyn Vault>,
    pub tenants: Tenants,
    pub settings: Arc<Settings>,
}

/// A page as it is kept with its range.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPage {
    pub page: PageNumber,
    pub reason: Reason,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Inspected {
    pages: u32,
}

async fn source(preparer: &Preparer, job: &Job) -> Result<LocalFile, StepError> {
    // It may be large: who can't read it has no use for it.
    if !preparer.pdf.is_here() {
        return Err(PdfError::Unavailable("documents are read elsewhere".into()).into());
    }
    preparer.blobs.open(&blob::source(&job.id)).await?.ok_or_else(|| StepError::Broken {
        code: StepCode::SourceMissing,
        reason: "the stored copy of the document is gone".into(),
    })
}

/// Opens the document and answers with the ranges to prepare, those of the selected pages.
pub async fn inspect(preparer: &Preparer, job: &Job) -> Result<Vec<PageRange>, StepError> {
    if let Some(pages) = inspected(preparer.blobs.as_ref(), job).await? {
        return selected(&preparer.settings, job, pages);
    }
    let pages = job_telemetry::inspect(&preparer.store, job).around(count_pages(preparer, job)).await?;
    selected(&preparer.settings, job, pages)
}

async fn count_pages(preparer: &Preparer, job: &Job) -> Result<u32, StepError> {
    let settings = tenants::settings(&preparer.tenants, &job.received.tenant).await?;
    let file = source(preparer, job).await?;
    let password = passwords::open(&preparer.store, preparer.vault.as_ref(), &job.id).await?;
    let pages = preparer.pdf.inspect(file.path(), password.as_ref(), settings.step_timeout).await?;
    if pages > settings.pdf.max_pages {
        return Err(PdfError::TooManyPages { pages, limit: settings.pdf.max_pages }.into());
    }
    let bytes = serde_json::to_vec(&Inspected { pages }).unwrap_or_default();
    preparer.blobs.put_new(&blob::inspection(&job.id), bytes).await?;
    Ok(pages)
}

async fn inspected(blobs: &dyn Blobs, job: &Job) -> Result<Option<u32>, StepError> {
    let bytes = blobs.get(&blob::inspection(&job.id)).await?;
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice::<Inspected>(&bytes).ok())
        .map(|inspected| inspected.pages))
}

fn selected(settings: &Settings, job: &Job, pages: u32) -> Result<Vec<PageRange>, StepError> {
    let selection = &job.received.options.pages;
    let ranges = split(selection, pages, settings.range_pages);
    if ranges.is_empty() {
        let reason = format!("pages {selection} were asked for, but the document has {pages}");
        return Err(StepError::Broken { code: StepCode::NoSuchPages, reason });
    }
    Ok(ranges)
}

/// The selected pages in ranges of at most `size`.
fn split(selection: &PageSelection, pages: u32, size: u32) -> Vec<PageRange> {
    let numbers: Vec<PageNumber> = selection.pages(pages).collect();
    numbers
        .chunks(size.max(1) as usize)
        .map(|chunk| {
            let (first, last) = (chunk[0], chunk[chunk.len() - 1]);
            let pages = if (last.get() - first.get()) as usize + 1 == chunk.len() {
                format!("{first}-{last}")
            } else {
                chunk.iter().map(PageNumber::to_string).collect::<Vec<_>>().join(",")
            };
            PageRange { first, last, count: chunk.len() as u32, pages: pages.parse().unwrap_or_default() }
        })
        .collect()
}

/// Reads the text of one range and stores it.
pub async fn read_range(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_text(&job.id, range.first, range.last);
    if preparer.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    job_telemetry::read_text(&preparer.store, job, range)
        .around(store_texts(preparer, job, range, &key))
        .await
}

async fn store_texts(preparer: &Preparer, job: &Job, range: &PageRange, key: &str) -> Result<(), StepError> {
    let pages: Vec<PageNumber> = range.pages.pages(u32::MAX).collect();
    let stored: Vec<StoredPage> = read(preparer, job, &pages, RenderPages::None)
        .await?
        .into_iter()
        .map(|page| StoredPage { page: page.number, reason: page.reason, text: page.text, fault: page.fault })
        .collect();
    preparer.blobs.put_new(key, encode(&stored)?).await?;
    Ok(())
}

/// Makes and stores the images of those pages of a range that may be sent with one. The list of
/// them comes last: when it is there, the range is done.
pub async fn render_range(preparer: &Preparer, job: &Job, range: &PageRange) -> Result<(), StepError> {
    // Nobody to send images to: making them would be the dearest part of the work for nothing.
    if preparer.settings.roster().engines.is_empty() {
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

async fn store_images(preparer: &Preparer, job: &Job, range: &PageRange, key: &str) -> Result<(), StepError> {
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

async fn read(
    preparer: &Preparer,
    job: &Job,
    pages: &[PageNumber],
    render: RenderPages,
) -> Result<Vec<PageReading>, StepError> {
    let file = source(preparer, job).await?;
    let password = passwords::open(&preparer.store, preparer.vault.as_ref(), &job.id).await?;
    let options = ReadOptions { render, style: job.received.options.image };
    Ok(preparer.pdf.read(file.path(), password.as_ref(), pages, &options).await?)
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(value)
        .map_err(|error| StepError::Broken { code: StepCode::Encoding, reason: error.to_string() })
}

async fn store_image(
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

/// The images of a range; `None` while they have not been made.
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

/// The image of a page that was made to be sent; `None` where none was.
pub async fn stored_image(
    blobs: &dyn Blobs,
    job: &Job,
    page: PageNumber,
) -> Result<Option<ImageRef>, StepError> {
    let Some(range) = job.survey.as_ref().and_then(|survey| survey.range_of(page)) else { return Ok(None) };
    let images = stored_images(blobs, &job.id, range).await?.unwrap_or_default();
    Ok(images.into_iter().find(|(number, _)| *number == page).map(|(_, image)| image))
}

/// Draws a page for somebody who wants to look at it. Nothing is kept; an encrypted document can't
/// be drawn any more once its password is gone.
pub async fn draw(preparer: &Preparer, job: &Job, page: PageNumber) -> Result<Option<PageImage>, StepError> {
    let readings = read(preparer, job, &[page], RenderPages::All).await?;
    Ok(readings.into_iter().find(|reading| reading.number == page).and_then(|reading| reading.image))
}

/// The stored pages of a range; `None` while it is not prepared.
pub async fn stored_range(
    blobs: &dyn Blobs,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<StoredPage>>, StepError> {
    stored_pages(blobs, &blob::range_text(job, range.first, range.last)).await
}

/// The same of many ranges, in their order.
pub async fn stored_ranges(
    blobs: &dyn Blobs,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<StoredPage>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| stored_range(blobs, job, range)).collect();
    stream::iter(reads).buffered(READ_AT_ONCE).try_collect().await
}

/// Their images, as [`stored_images`] of each.
pub async fn all_stored_images(
    blobs: &dyn Blobs,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<(PageNumber, ImageRef)>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| stored_images(blobs, job, range)).collect();
    stream::iter(reads).buffered(READ_AT_ONCE).try_collect().await
}

pub async fn stored_pages(blobs: &dyn Blobs, key: &str) -> Result<Option<Vec<StoredPage>>, StepError> {
    let Some(bytes) = blobs.get(key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StepError::Broken { code: StepCode::StoredText, reason: format!("{key}: {error}") })
}

/// Notes that the document is understood and forgets its password.
pub async fn understand(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let ranges = inspect(preparer, job).await?;
    let survey = survey(preparer.blobs.as_ref(), job, ranges).await?;
    if !survey.complete {
        return Err(StepError::Broken {
            code: StepCode::NotPrepared,
            reason: "some pages are not prepared yet".into(),
        });
    }
    note(&preparer.store, &job.id, survey).await
}

/// At the deadline: whatever is prepared by now is all there will be. Unless that is nothing at all,
/// or the deadline is long past because nobody was alive to keep it: then text is worth some seconds.
pub async fn understand_what_is_there(preparer: &Preparer, job: &Job) -> Result<Job, StepError> {
    let late = after(job.deadline, LATE) <= preparer.store.clock.now();
    if late || inspected(preparer.blobs.as_ref(), job).await?.is_none() {
        let time = if late { preparer.settings.step_timeout } else { LATE };
        match within(preparer.store.clock.as_ref(), time, read_texts(preparer, job)).await {
            // Where finalize can't open documents.
            None | Some(Err(StepError::Fault(Fault::ParserUnavailable { .. }))) => {}
            Some(read) => read?,
        }
    }
    let Some(pages) = inspected(preparer.blobs.as_ref(), job).await? else {
        let reason = "the document could not be opened before its deadline".to_owned();
        return Err(StepError::Broken { code: StepCode::Deadline, reason });
    };
    let ranges = selected(&preparer.settings, job, pages)?;
    let survey = survey(preparer.blobs.as_ref(), job, ranges).await?;
    note(&preparer.store, &job.id, survey).await
}

async fn read_texts(preparer: &Preparer, job: &Job) -> Result<(), StepError> {
    for range in inspect(preparer, job).await? {
        read_range(preparer, job, &range).await?;
    }
    Ok(())
}

async fn note(store: &Store, job: &JobId, survey: Survey) -> Result<Job, StepError> {
    let kept = jobs::advance_and_forget(store, Actor::Intake, job, |job| match job.state {
        State::Acked => vec![JobEvent::Understood(survey.clone())],
        _ => vec![],
    })
    .await?;
    Ok(kept.value)
}

async fn survey(blobs: &dyn Blobs, job: &Job, ranges: Vec<PageRange>) -> Result<Survey, StepError> {
    let document_pages = inspected(blobs, job).await?.unwrap_or(0);
    let mut survey = Survey {
        document_pages,
        ranges: vec![],
        text_only: 0,
        has_graphics: 0,
        unreadable: 0,
        complete: true,
    };
    let stored = stored_ranges(blobs, &job.id, &ranges).await?;
    for (range, pages) in ranges.into_iter().zip(stored) {
        match pages {
            None => survey.complete = false,
            Some(pages) => {
                for page in pages {
                    match page.reason.classification() {
                        Classification::TextOnly => survey.text_only += 1,
                        Classification::HasGraphics => survey.has_graphics += 1,
                    }
                    survey.unreadable += u32::from(page.reason == Reason::Unreadable);
                }
            }
        }
        survey.ranges.push(range);
    }
    Ok(survey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_each_selected_page_once() {
        let selection: PageSelection = "1-5,9,11-".parse().unwrap();
        let ranges = split(&selection, 14, 4);
        let pages: Vec<u32> =
            ranges.iter().flat_map(|range| range.pages.pages(u32::MAX)).map(PageNumber::get).collect();
        assert_eq!(pages, [1, 2, 3, 4, 5, 9, 11, 12, 13, 14]);
        assert_eq!(ranges.iter().map(|range| range.count).sum::<u32>(), 10);
        assert!(split(&"20".parse().unwrap(), 14, 4).is_empty());
    }
}
