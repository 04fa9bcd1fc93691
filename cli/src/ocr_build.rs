//! The OCR program of a checkout is built before the first document that needs it is accepted: a build takes minutes,
//! and a job's time begins when it is accepted.

use std::{path::Path, time::Duration};

use everypage_core::{
    ids::{PageNumber, TenantId},
    ports::{
        ocr::Ocr,
        pdf::{Pdf, PdfSource, ReadOptions, RenderPages},
    },
    prepare::{StoredPage, needs_ocr},
    secret::Secret,
    settings::{OcrPages, Settings},
};
use everypage_pdf::IsolatedPdf;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    documents::Work,
    problem::Problem,
    settings::{Context, ocr, pdf},
};

/// Pages of a document that are searched for one without a text layer, and how many at a time. Should a later page
/// need OCR, it is built in the background.
const MAX_PAGES: u32 = 2_000;
const BATCH_SIZE: u32 = 64;
/// All documents are searched for at most so long.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(60);

/// Builds the program if it is not there and some document needs it. Without it, documents have the text they have.
pub async fn build_if_needed(context: &Context, work: &Work) -> Result<(), Problem> {
    let settings = context.settings()?;
    let engine = ocr()?;
    if settings.ocr == OcrPages::Off
        || !engine.will_be_built()
        || engine.check(&settings.ocr_languages).await.is_err()
    {
        return Ok(());
    }
    let reader = pdf(settings)?;
    let (files, password) = work.files();
    let search = async {
        for file in files {
            if needs_build(settings, &reader, file, password).await {
                return true;
            }
        }
        false
    };
    if !tokio::time::timeout(MAX_SEARCH_TIME, search).await.unwrap_or(false) {
        return Ok(());
    }
    let screen = &context.screen;
    screen.note("building OCR for pages without a text layer, once; this takes some minutes");
    let bar = screen.bars.add(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} building OCR  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let built = engine.build_if_missing().await;
    bar.finish_and_clear();
    screen.bars.remove(&bar);
    if let Err(error) = built {
        screen.warn(&format!("pages without a text layer are not recognized: {error}"));
    }
    Ok(())
}

/// Whether the document has a page that only OCR can read. What can't be read says so when its job does.
async fn needs_build(
    settings: &Settings,
    reader: &IsolatedPdf,
    file: &Path,
    password: Option<&Secret>,
) -> bool {
    let tenant = TenantId::new(settings.tenant.clone());
    let source = PdfSource { file, password, tenant: &tenant };
    let Ok(count) = reader.inspect(source, settings.step_timeout).await else { return false };
    let options = ReadOptions { render: RenderPages::None, style: settings.image };
    let last = count.min(MAX_PAGES);
    for first in (1..=last).step_by(BATCH_SIZE as usize) {
        let numbers = first..=last.min(first + BATCH_SIZE - 1);
        let pages: Vec<PageNumber> = numbers.filter_map(PageNumber::new).collect();
        let Ok(read) = reader.read(source, &pages, &options).await else { return false };
        if read.into_iter().any(|page| needs_ocr(settings.ocr, &StoredPage::from(page))) {
            return true;
        }
    }
    false
}
