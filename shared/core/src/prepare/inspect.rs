//! Opens a document, counts its pages and splits the selected ones into ranges.

use serde::{Deserialize, Serialize};

use crate::{
    document::PageReading,
    ids::PageNumber,
    job::{
        Job, PageRange, StepCode, StepError, encode, passwords, selection::PageSelection,
        telemetry as job_telemetry,
    },
    keys::blob,
    ports::{
        blobs::{Blobs, LocalFile},
        pdf::{PdfError, PdfSource, ReadOptions, RenderPages},
    },
    prepare::Preparer,
    settings::Settings,
    telemetry::metrics::{Operation, measured},
    tenants,
};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Inspected {
    pages: u32,
}

/// A local copy of the source. An error if the parser is not in this process or the source is missing.
pub(super) async fn source(preparer: &Preparer, job: &Job) -> Result<LocalFile, StepError> {
    // The source may be large: do not download it to a process that can't open it.
    if !preparer.pdf.is_available() {
        return Err(PdfError::Unavailable("this process has no PDF parser".into()).into());
    }
    preparer.blobs.open(&blob::source(&job.id)).await?.ok_or_else(|| StepError::Broken {
        code: StepCode::SourceMissing,
        reason: "the stored copy of the document is missing".into(),
    })
}

pub(super) async fn read(
    preparer: &Preparer,
    job: &Job,
    pages: &[PageNumber],
    render: RenderPages,
) -> Result<Vec<PageReading>, StepError> {
    read_with(preparer, job, pages, ReadOptions { render, style: job.received.options.image }).await
}

pub(super) async fn read_with(
    preparer: &Preparer,
    job: &Job,
    pages: &[PageNumber],
    options: ReadOptions,
) -> Result<Vec<PageReading>, StepError> {
    let file = source(preparer, job).await?;
    let password = passwords::open(&preparer.store, preparer.vault.as_ref(), &job.id).await?;
    let source = PdfSource { file: file.path(), password: password.as_ref(), tenant: &job.received.tenant };
    Ok(preparer.pdf.read(source, pages, &options).await?)
}

/// Opens the document and returns the ranges of the selected pages. The page count is stored, so that a
/// retry does not open the document again.
pub async fn inspect(preparer: &Preparer, job: &Job) -> Result<Vec<PageRange>, StepError> {
    if let Some(pages) = inspected(preparer.blobs.as_ref(), job).await? {
        return selected_ranges(&preparer.settings, job, pages);
    }
    let work = job_telemetry::inspect(&preparer.store, job).run(count_pages(preparer, job));
    let priority = job.received.options.priority;
    let pages = measured(preparer.store.clock.as_ref(), Operation::Open, priority, work).await?;
    selected_ranges(&preparer.settings, job, pages)
}

pub(super) async fn count_pages(preparer: &Preparer, job: &Job) -> Result<u32, StepError> {
    let settings = tenants::settings(&preparer.tenants, &job.received.tenant).await?;
    let file = source(preparer, job).await?;
    let password = passwords::open(&preparer.store, preparer.vault.as_ref(), &job.id).await?;
    let source = PdfSource { file: file.path(), password: password.as_ref(), tenant: &job.received.tenant };
    let pages = preparer.pdf.inspect(source, settings.step_timeout).await?;
    if pages > settings.pdf.max_pages {
        return Err(PdfError::TooManyPages { pages, limit: settings.pdf.max_pages }.into());
    }
    let bytes = encode(&Inspected { pages })?;
    preparer.blobs.put_new(&blob::inspection(&job.id), bytes).await?;
    Ok(pages)
}

pub(super) async fn inspected(blobs: &dyn Blobs, job: &Job) -> Result<Option<u32>, StepError> {
    let bytes = blobs.get(&blob::inspection(&job.id)).await?;
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice::<Inspected>(&bytes).ok())
        .map(|inspected| inspected.pages))
}

pub(super) fn selected_ranges(
    settings: &Settings,
    job: &Job,
    pages: u32,
) -> Result<Vec<PageRange>, StepError> {
    let selection = &job.received.options.pages;
    let ranges = split(selection, pages, settings.range_pages);
    if ranges.is_empty() {
        let reason = format!("pages {selection} were requested, but the document has {pages}");
        return Err(StepError::Broken { code: StepCode::NoSuchPages, reason });
    }
    Ok(ranges)
}

/// Splits the selected pages into ranges of at most `size` pages.
pub(super) fn split(selection: &PageSelection, pages: u32, size: u32) -> Vec<PageRange> {
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
