//! Reads one file as a job does: all text, range by range, then the structure of the document, the images, and OCR.

use std::{path::Path, time::Duration};

use everypage_core::{
    document::{Block, Classification, Findings, PageBlocks, PageReading, Reason, plain_text},
    ids::{PageNumber, TenantId},
    ports::{
        ocr::{Ocr, OcrError, OcrPriority, OcrRequest},
        pdf::{Pdf, PdfError, PdfSource, ReadOptions, RenderPages},
    },
    prepare::{OCR_IMAGE, StoredPage, needs_ocr},
    secret::Secret,
    settings::OcrPages,
};
use tokio::time::timeout;

use super::outcome::{DefectKind, Outcome, Pages, ReadRequest};

/// Faults reported per file; further ones are like these.
const MAX_FAULTS: usize = 5;
/// Error messages are for people to read.
const MAX_MESSAGE_CHARS: usize = 1_000;
/// Pages of a file that OCR reads, each in its time: more are like these.
const MAX_OCR_PAGES: usize = 3;
const OCR_TIME: Duration = Duration::from_secs(10);
/// A process that does not end in its time is killed this much later.
const OCR_GRACE: Duration = Duration::from_secs(20);

/// Why reading stopped.
enum Stopped {
    Rejected(PdfError),
    Defect(DefectKind, String),
}

impl From<PdfError> for Stopped {
    fn from(error: PdfError) -> Self {
        Self::Rejected(error)
    }
}

pub async fn read(pdf: &impl Pdf, ocr: &impl Ocr, file: &Path, request: &ReadRequest) -> Outcome {
    let password = request.password.clone().map(Secret::new);
    let mut pages = Pages::default();
    let reading = read_all(pdf, ocr, file, password.as_ref(), request, &mut pages);
    let stopped = match timeout(request.time_limit, reading).await {
        Ok(Ok(())) => return Outcome::Text(pages),
        Ok(Err(stopped)) => stopped,
        Err(_) => {
            pages.cut = true;
            return Outcome::Text(pages);
        }
    };
    match stopped {
        Stopped::Defect(kind, what) => Outcome::Defect { kind, what },
        Stopped::Rejected(PdfError::Unavailable(what)) => {
            Outcome::Defect { kind: DefectKind::Unavailable, what }
        }
        Stopped::Rejected(error) => {
            let message = error.to_string();
            match check_words(&message) {
                Err(what) => Outcome::Defect { kind: DefectKind::Words, what },
                Ok(()) => Outcome::Error { code: error.code().to_owned(), message },
            }
        }
    }
}

async fn read_all(
    pdf: &impl Pdf,
    ocr: &impl Ocr,
    file: &Path,
    password: Option<&Secret>,
    request: &ReadRequest,
    pages: &mut Pages,
) -> Result<(), Stopped> {
    let source = PdfSource { file, password, tenant: &TenantId::new("torture") };
    pages.pages = pdf.inspect(source, request.step_timeout).await?;
    let numbers: Vec<PageNumber> = (1..=pages.pages).filter_map(PageNumber::new).collect();
    let ranges = || numbers.chunks(request.range_pages.max(1) as usize);
    let (mut with_graphics, mut without_text, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    let options = |render| ReadOptions { render, style: request.image };
    for range in ranges() {
        let readings = pdf.read(source, range, &options(RenderPages::None)).await?;
        check(range, &readings)?;
        for reading in readings {
            pages.read += 1;
            pages.characters += reading.text.chars().count() as u64;
            note_fault(pages, &reading)?;
            // As in a job: a page that could not be read can't be rendered.
            if reading.reason != Reason::Unreadable
                && reading.reason.classification() == Classification::HasGraphics
            {
                with_graphics.push(reading.number);
            }
            let page = StoredPage::from(reading);
            if needs_ocr(OcrPages::Auto, &page) {
                without_text.push(page.page);
            }
            stored.push(page);
        }
    }
    let mut document = structured(stored)?;
    for range in with_graphics.chunks(request.range_pages.max(1) as usize) {
        let readings = pdf.read(source, range, &options(RenderPages::All)).await?;
        check(range, &readings)?;
        for reading in readings {
            pages.images += u32::from(reading.image.is_some());
            match &reading.fault {
                Some(fault) => {
                    pages.unrendered += 1;
                    keep_fault(pages, fault)?;
                }
                None if reading.image.is_none() => {
                    let what = format!("page {} has neither an image nor a reason", reading.number);
                    return Err(Stopped::Defect(DefectKind::Pages, what));
                }
                None => {}
            }
        }
    }
    if !request.ocr || ocr.check(&languages()).await.is_err() {
        return Ok(());
    }
    for number in without_text.into_iter().take(MAX_OCR_PAGES) {
        let rendered = ReadOptions { render: RenderPages::All, style: OCR_IMAGE };
        let readings = pdf.read(source, &[number], &rendered).await?;
        check(&[number], &readings)?;
        for reading in readings {
            if let Some(blocks) = recognize(ocr, &reading, pages).await? {
                document.retain(|page| page.page != number);
                document.push(StoredPage { blocks, ..StoredPage::from(reading) });
            }
        }
    }
    // As in a job: what OCR read changes the structure of the document.
    structured(document)?;
    Ok(())
}

/// What a job does when all text is read: running headers, heading levels, lists over the whole document.
/// Fails if a page loses all of its text by it.
fn structured(mut pages: Vec<StoredPage>) -> Result<Vec<StoredPage>, Stopped> {
    pages.sort_by_key(|page| page.page);
    let blocks: Vec<PageBlocks<'_>> = pages
        .iter()
        .map(|page| PageBlocks {
            number: page.page.get(),
            page: page.area,
            blocks: &page.blocks,
            images: &page.images,
        })
        .collect();
    let findings = Findings::of(&blocks);
    for page in &mut pages {
        let had_text = !plain_text(&page.blocks).trim().is_empty();
        findings.apply(page.page.get(), page.area, &mut page.blocks);
        page.text = plain_text(&page.blocks);
        if had_text && page.text.trim().is_empty() {
            let what = format!("page {} lost its text to the structure of the document", page.page);
            return Err(Stopped::Defect(DefectKind::Pages, what));
        }
    }
    Ok(pages)
}

/// The blocks that OCR finds; `None` for a page without an image, or that OCR gave up.
async fn recognize(
    ocr: &impl Ocr,
    reading: &PageReading,
    pages: &mut Pages,
) -> Result<Option<Vec<Block>>, Stopped> {
    let Some(image) = &reading.image else { return Ok(None) };
    let languages = &languages();
    let request =
        OcrRequest { image, page: reading.page, languages, priority: OcrPriority::Needed, time: OCR_TIME };
    match timeout(OCR_TIME + OCR_GRACE, ocr.recognize(request)).await {
        Err(_) => {
            let what = format!("OCR of page {} continued after its time", reading.number);
            Err(Stopped::Defect(DefectKind::Hang, what))
        }
        Ok(Ok(read)) => {
            pages.recognized += 1;
            Ok(Some(read.blocks))
        }
        Ok(Err(OcrError::Page(fault))) => keep_fault(pages, &fault).map(|()| None),
        // Its program is not built.
        Ok(Err(OcrError::Unavailable(_))) => Ok(None),
    }
}

fn languages() -> Vec<String> {
    vec!["eng".to_owned()]
}

/// Expects one answer per requested page, in order.
fn check(requested: &[PageNumber], readings: &[PageReading]) -> Result<(), Stopped> {
    if requested.iter().eq(readings.iter().map(|reading| &reading.number)) {
        return Ok(());
    }
    let what = format!(
        "{} pages from {} on were requested, {} were returned",
        requested.len(),
        requested.first().map_or(0, |page| page.get()),
        readings.len()
    );
    Err(Stopped::Defect(DefectKind::Pages, what))
}

fn note_fault(pages: &mut Pages, reading: &PageReading) -> Result<(), Stopped> {
    if (reading.reason == Reason::Unreadable) != reading.fault.is_some() {
        let what = format!("page {} is unreadable without a reason, or the reverse", reading.number);
        return Err(Stopped::Defect(DefectKind::Pages, what));
    }
    if let Some(fault) = &reading.fault {
        pages.unreadable += 1;
        keep_fault(pages, fault)?;
    }
    Ok(())
}

fn keep_fault(pages: &mut Pages, fault: &str) -> Result<(), Stopped> {
    check_words(fault).map_err(|what| Stopped::Defect(DefectKind::Words, what))?;
    if pages.faults.len() < MAX_FAULTS && !pages.faults.iter().any(|known| known == fault) {
        pages.faults.push(fault.to_owned());
    }
    Ok(())
}

/// Errors are shown to people and written to logs: they must not contain bytes of the file.
fn check_words(message: &str) -> Result<(), String> {
    if message.trim().is_empty() {
        return Err("an error message is empty".into());
    }
    if message.chars().any(char::is_control) {
        return Err(format!("an error message contains control characters: {message:?}"));
    }
    match message.chars().count() {
        long if long > MAX_MESSAGE_CHARS => Err(format!("an error message is {long} characters long")),
        _ => Ok(()),
    }
}
