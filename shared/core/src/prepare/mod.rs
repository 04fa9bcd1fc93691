//! Opening the document and storing MuPDF's text of every page, range by range, then the images.
//!
//! Text comes first, for all pages, because it is what every page falls back to and takes a
//! hundredth of the time: when the deadline comes while images are still being made, no page is
//! without text.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::job::StepError;
use crate::keys::blob;
use crate::{
    app::App,
    document::{Classification, PageImage, PageReading, Reason},
    ids::{JobId, PageNumber},
    job::{
        Job, JobEvent, PageRange, State, Survey, jobs, message::ImageRef, passwords, selection::PageSelection,
    },
    ports::{
        Fault,
        blobs::LocalFile,
        pdf::{PdfError, ReadOptions, RenderPages},
    },
    telemetry::spans,
    tenants,
    time::{after, within},
};

/// A flow that lives finalizes its job sooner than this after the deadline.
const LATE: Duration = Duration::from_secs(5);

/// Ranges of a large document that are fetched side by side: at its deadline somebody waits for all of them.
const READ_AT_ONCE: usize = 16;

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

async fn source(app: &App, job: &Job) -> Result<LocalFile, StepError> {
    // It may be large: who can't read it has no use for it.
    if !app.pdf.is_here() {
        return Err(PdfError::Unavailable("documents are read elsewhere".into()).into());
    }
    app.blobs.open(&blob::source(&job.id)).await?.ok_or_else(|| StepError::Broken {
        code: "source_missing",
        reason: "the stored copy of the document is gone".into(),
    })
}

/// Opens the document and answers with the ranges to prepare, those of the selected pages.
pub async fn inspect(app: &App, job: &Job) -> Result<Vec<PageRange>, StepError> {
    if let Some(pages) = inspected(app, job).await? {
        return selected(app, job, pages);
    }
    let pages = spans::inspect(app, job).around(count_pages(app, job)).await?;
    selected(app, job, pages)
}

async fn count_pages(app: &App, job: &Job) -> Result<u32, StepError> {
    let settings = tenants::settings(app, &job.received.tenant).await?;
    let file = source(app, job).await?;
    let password = passwords::open(app, &job.id).await?;
    let pages = app.pdf.inspect(file.path(), password.as_ref(), settings.step_timeout).await?;
    if pages > settings.pdf.max_pages {
        return Err(PdfError::TooManyPages { pages, limit: settings.pdf.max_pages }.into());
    }
    let bytes = serde_json::to_vec(&Inspected { pages }).unwrap_or_default();
    app.blobs.put_new(&blob::inspection(&job.id), bytes).await?;
    Ok(pages)
}

async fn inspected(app: &App, job: &Job) -> Result<Option<u32>, StepError> {
    let bytes = app.blobs.get(&blob::inspection(&job.id)).await?;
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice::<Inspected>(&bytes).ok())
        .map(|inspected| inspected.pages))
}

fn selected(app: &App, job: &Job, pages: u32) -> Result<Vec<PageRange>, StepError> {
    let selection = &job.received.options.pages;
    let ranges = split(selection, pages, app.settings.range_pages);
    if ranges.is_empty() {
        let reason = format!("pages {selection} were asked for, but the document has {pages}");
        return Err(StepError::Broken { code: "no_such_pages", reason });
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
pub async fn read_range(app: &App, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_text(&job.id, range.first, range.last);
    if app.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    spans::read_text(app, job, range).around(store_texts(app, job, range, &key)).await
}

async fn store_texts(app: &App, job: &Job, range: &PageRange, key: &str) -> Result<(), StepError> {
    let pages: Vec<PageNumber> = range.pages.pages(u32::MAX).collect();
    let stored: Vec<StoredPage> = read(app, job, &pages, RenderPages::None)
        .await?
        .into_iter()
        .map(|page| StoredPage { page: page.number, reason: page.reason, text: page.text, fault: page.fault })
        .collect();
    app.blobs.put_new(key, encode(&stored)?).await?;
    Ok(())
}

/// Makes and stores the images of those pages of a range that may be sent with one. The list of
/// them comes last: when it is there, the range is done.
pub async fn render_range(app: &App, job: &Job, range: &PageRange) -> Result<(), StepError> {
    // Nobody to send images to: making them would be the dearest part of the work for nothing.
    if app.settings.roster().engines.is_empty() {
        return Ok(());
    }
    make_images(app, job, range).await
}

/// The same for somebody who need not know whom the images will be sent to.
pub async fn make_images(app: &App, job: &Job, range: &PageRange) -> Result<(), StepError> {
    let key = blob::range_images(&job.id, range.first, range.last);
    if app.blobs.get(&key).await?.is_some() {
        return Ok(());
    }
    spans::render(app, job, range).around(store_images(app, job, range, &key)).await
}

async fn store_images(app: &App, job: &Job, range: &PageRange, key: &str) -> Result<(), StepError> {
    let stored = stored_range(app, &job.id, range).await?.unwrap_or_default();
    let pages: Vec<PageNumber> =
        stored.iter().filter(|page| wants_image(job, page)).map(|page| page.page).collect();
    let mut images = Vec::with_capacity(pages.len());
    if !pages.is_empty() {
        for reading in read(app, job, &pages, RenderPages::All).await? {
            if let Some(image) = reading.image {
                images.push((reading.number, store_image(app, &job.id, reading.number, image).await?));
            }
        }
    }
    app.blobs.put_new(key, encode(&images)?).await?;
    Ok(())
}

/// May this page be sent with an image? What the parser could not even read, it can't draw.
pub fn wants_image(job: &Job, page: &StoredPage) -> bool {
    let needs_eyes = page.reason.classification() == Classification::HasGraphics;
    page.reason != Reason::Unreadable && (needs_eyes || job.received.options.image_for_all)
}

async fn read(
    app: &App,
    job: &Job,
    pages: &[PageNumber],
    render: RenderPages,
) -> Result<Vec<PageReading>, StepError> {
    let file = source(app, job).await?;
    let password = passwords::open(app, &job.id).await?;
    let options = ReadOptions { render, style: job.received.options.image };
    Ok(app.pdf.read(file.path(), password.as_ref(), pages, &options).await?)
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(value)
        .map_err(|error| StepError::Broken { code: "encoding", reason: error.to_string() })
}

async fn store_image(
    app: &App,
    job: &JobId,
    page: PageNumber,
    image: PageImage,
) -> Result<ImageRef, StepError> {
    let key = blob::page_image(job, page, image.format.extension());
    app.blobs.put_new(&key, image.bytes).await?;
    let (mime, width_px, height_px) = (image.format.mime().to_owned(), image.width_px, image.height_px);
    Ok(ImageRef { key, mime, width_px, height_px })
}

/// The images of a range; `None` while they have not been made.
pub async fn stored_images(
    app: &App,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<(PageNumber, ImageRef)>>, StepError> {
    let key = blob::range_images(job, range.first, range.last);
    let Some(bytes) = app.blobs.get(&key).await? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StepError::Broken { code: "stored_images", reason: format!("{key}: {error}") })
}

/// The image of a page that was made to be sent; `None` where none was.
pub async fn stored_image(app: &App, job: &Job, page: PageNumber) -> Result<Option<ImageRef>, StepError> {
    let Some(range) = job.survey.as_ref().and_then(|survey| survey.range_of(page)) else { return Ok(None) };
    let images = stored_images(app, &job.id, range).await?.unwrap_or_default();
    Ok(images.into_iter().find(|(number, _)| *number == page).map(|(_, image)| image))
}

/// Draws a page for somebody who wants to look at it. Nothing is kept; an encrypted document can't
/// be drawn any more once its password is gone.
pub async fn draw(app: &App, job: &Job, page: PageNumber) -> Result<Option<PageImage>, StepError> {
    let readings = read(app, job, &[page], RenderPages::All).await?;
    Ok(readings.into_iter().find(|reading| reading.number == page).and_then(|reading| reading.image))
}

/// The stored pages of a range; `None` while it is not prepared.
pub async fn stored_range(
    app: &App,
    job: &JobId,
    range: &PageRange,
) -> Result<Option<Vec<StoredPage>>, StepError> {
    stored_pages(app, &blob::range_text(job, range.first, range.last)).await
}

/// The same of many ranges, in their order.
pub async fn stored_ranges(
    app: &App,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<StoredPage>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| stored_range(app, job, range)).collect();
    stream::iter(reads).buffered(READ_AT_ONCE).try_collect().await
}

/// Their images, as [`stored_images`] of each.
pub async fn all_stored_images(
    app: &App,
    job: &JobId,
    ranges: &[PageRange],
) -> Result<Vec<Option<Vec<(PageNumber, ImageRef)>>>, StepError> {
    let reads: Vec<_> = ranges.iter().map(|range| stored_images(app, job, range)).collect();
    stream::iter(reads).buffered(READ_AT_ONCE).try_collect().await
}

pub async fn stored_pages(app: &App, key: &str) -> Result<Option<Vec<StoredPage>>, StepError> {
    let Some(bytes) = app.blobs.get(key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StepError::Broken { code: "stored_text", reason: format!("{key}: {error}") })
}

/// Notes that the document is understood and forgets its password.
pub async fn understand(app: &App, job: &Job) -> Result<Job, StepError> {
    let ranges = inspect(app, job).await?;
    let survey = survey(app, job, ranges).await?;
    if !survey.complete {
        return Err(StepError::Broken {
            code: "not_prepared",
            reason: "some pages are not prepared yet".into(),
        });
    }
    note(app, &job.id, survey).await
}

/// At the deadline: whatever is prepared by now is all there will be. Unless that is nothing at all,
/// or the deadline is long past because nobody was alive to keep it: then text is worth some seconds.
pub async fn understand_what_is_there(app: &App, job: &Job) -> Result<Job, StepError> {
    let late = after(job.deadline, LATE) <= app.clock.now();
    if late || inspected(app, job).await?.is_none() {
        let time = if late { app.settings.step_timeout } else { LATE };
        match within(app.clock.as_ref(), time, read_texts(app, job)).await {
            // Where finalize can't open documents.
            None | Some(Err(StepError::Fault(Fault::Unreachable { service: "pdf", .. }))) => {}
            Some(read) => read?,
        }
    }
    let Some(pages) = inspected(app, job).await? else {
        let reason = "the document could not be opened before its deadline".to_owned();
        return Err(StepError::Broken { code: "deadline", reason });
    };
    let ranges = selected(app, job, pages)?;
    let survey = survey(app, job, ranges).await?;
    note(app, &job.id, survey).await
}

async fn read_texts(app: &App, job: &Job) -> Result<(), StepError> {
    for range in inspect(app, job).await? {
        read_range(app, job, &range).await?;
    }
    Ok(())
}

async fn note(app: &App, job: &JobId, survey: Survey) -> Result<Job, StepError> {
    let kept = jobs::advance_and_forget(app, "intake", job, |job| match job.state {
        State::Acked => vec![JobEvent::Understood(survey.clone())],
        _ => vec![],
    })
    .await?;
    Ok(kept.value)
}

async fn survey(app: &App, job: &Job, ranges: Vec<PageRange>) -> Result<Survey, StepError> {
    let document_pages = inspected(app, job).await?.unwrap_or(0);
    let mut survey = Survey {
        document_pages,
        ranges: vec![],
        text_only: 0,
        has_graphics: 0,
        unreadable: 0,
        complete: true,
    };
    let stored = stored_ranges(app, &job.id, &ranges).await?;
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
