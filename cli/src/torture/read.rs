//! Reads one file as a job does: all text, range by range, then the images.

use std::path::Path;

use everypage_core::{
    domain::{
        document::{Classification, PageReading, Reason},
        ids::PageNumber,
        secret::Secret,
    },
    ports::pdf::{Pdf, PdfError, ReadOptions, RenderPages},
};
use tokio::time::timeout;

use super::end::{End, Kind, Order, Pages};

/// Faults that are kept of a file; the others are like them.
const MOST_FAULTS: usize = 5;
/// An error's words are for a person to read.
const MOST_WORDS: usize = 1_000;

/// Why reading stopped.
enum Stopped {
    Refused(PdfError),
    Defect(Kind, String),
}

impl From<PdfError> for Stopped {
    fn from(error: PdfError) -> Self {
        Self::Refused(error)
    }
}

pub async fn read(pdf: &impl Pdf, file: &Path, order: &Order) -> End {
    let password = order.password.clone().map(Secret::new);
    let mut pages = Pages::default();
    let reading = read_all(pdf, file, password.as_ref(), order, &mut pages);
    let stopped = match timeout(order.time_limit, reading).await {
        Ok(Ok(())) => return End::Text(pages),
        Ok(Err(stopped)) => stopped,
        Err(_) => {
            pages.cut = true;
            return End::Text(pages);
        }
    };
    match stopped {
        Stopped::Defect(kind, what) => End::Defect { kind, what },
        Stopped::Refused(PdfError::Unavailable(what)) => End::Defect { kind: Kind::Unavailable, what },
        Stopped::Refused(error) => {
            let message = error.to_string();
            match check_words(&message) {
                Err(what) => End::Defect { kind: Kind::Words, what },
                Ok(()) => End::Error { code: error.code().to_owned(), message },
            }
        }
    }
}

async fn read_all(
    pdf: &impl Pdf,
    file: &Path,
    password: Option<&Secret>,
    order: &Order,
    pages: &mut Pages,
) -> Result<(), Stopped> {
    pages.pages = pdf.inspect(file, password, order.step_timeout).await?;
    let numbers: Vec<PageNumber> = (1..=pages.pages).filter_map(PageNumber::new).collect();
    let ranges = || numbers.chunks(order.range_pages.max(1) as usize);
    let mut need_eyes = Vec::new();
    let options = |render| ReadOptions { render, style: order.image };
    for range in ranges() {
        let readings = pdf.read(file, password, range, &options(RenderPages::None)).await?;
        check(range, &readings)?;
        for reading in readings {
            pages.read += 1;
            pages.characters += reading.text.chars().count() as u64;
            note_fault(pages, &reading)?;
            // As a job does: what could not be read can't be drawn.
            if reading.reason != Reason::Unreadable
                && reading.reason.classification() == Classification::HasGraphics
            {
                need_eyes.push(reading.number);
            }
        }
    }
    for range in need_eyes.chunks(order.range_pages.max(1) as usize) {
        let readings = pdf.read(file, password, range, &options(RenderPages::All)).await?;
        check(range, &readings)?;
        for reading in readings {
            pages.images += u32::from(reading.image.is_some());
            match &reading.fault {
                Some(fault) => {
                    pages.undrawn += 1;
                    keep_fault(pages, fault)?;
                }
                None if reading.image.is_none() => {
                    let what = format!("page {} has neither an image nor a reason", reading.number);
                    return Err(Stopped::Defect(Kind::Pages, what));
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// One answer per page that was asked for, in order.
fn check(asked: &[PageNumber], readings: &[PageReading]) -> Result<(), Stopped> {
    if asked.iter().eq(readings.iter().map(|reading| &reading.number)) {
        return Ok(());
    }
    let what = format!(
        "{} pages from {} on were asked for, {} came",
        asked.len(),
        asked.first().map_or(0, |page| page.get()),
        readings.len()
    );
    Err(Stopped::Defect(Kind::Pages, what))
}

fn note_fault(pages: &mut Pages, reading: &PageReading) -> Result<(), Stopped> {
    if (reading.reason == Reason::Unreadable) != reading.fault.is_some() {
        let what = format!("page {} is unreadable without a reason, or the reverse", reading.number);
        return Err(Stopped::Defect(Kind::Pages, what));
    }
    if let Some(fault) = &reading.fault {
        pages.unreadable += 1;
        keep_fault(pages, fault)?;
    }
    Ok(())
}

fn keep_fault(pages: &mut Pages, fault: &str) -> Result<(), Stopped> {
    check_words(fault).map_err(|what| Stopped::Defect(Kind::Words, what))?;
    if pages.faults.len() < MOST_FAULTS && !pages.faults.iter().any(|known| known == fault) {
        pages.faults.push(fault.to_owned());
    }
    Ok(())
}

/// Errors are shown to people and written to logs: bytes of the file have no place in them.
fn check_words(message: &str) -> Result<(), String> {
    if message.trim().is_empty() {
        return Err("an error says nothing".into());
    }
    if message.chars().any(char::is_control) {
        return Err(format!("an error holds control characters: {message:?}"));
    }
    match message.chars().count() {
        long if long > MOST_WORDS => Err(format!("an error is {long} characters long")),
        _ => Ok(()),
    }
}
