//! `everypage verify`: checks a text, of whatever tool, against the document.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use everypage_core::{
    document::{Findings, PageBlocks, PageReading, Reason, plain_text},
    ids::{PageNumber, TenantId},
    ports::{
        ocr::{Ocr, OcrPriority, OcrReading, OcrRequest},
        pdf::{Pdf, PdfSource, ReadOptions, RenderPages},
    },
    prepare::{OCR_IMAGE, OCR_PAGE_TIMEOUT, StoredPage, needs_ocr},
    secret::Secret,
};
use everypage_pdf::{IsolatedPdf, TesseractOcr};
use futures::{StreamExt, stream};
use serde::Serialize;

use crate::{
    args::Verify,
    commands::password,
    compare::{self, Expected, PageComparison, words},
    exit::Exit,
    human,
    problem::Problem,
    settings::{Context, ocr, pdf},
    table::{Table, terminal_width},
};

/// Pages that are read at a time.
const BATCH_SIZE: u32 = 64;
/// A text larger than this is not the text of a document.
const MAX_TEXT_BYTES: u64 = 1 << 30;
/// Below this, what OCR reads is no measure.
const MIN_OCR_CONFIDENCE: f32 = 0.8;

#[derive(Serialize)]
struct Verdict<'a> {
    agrees: bool,
    minimum_agreement: f64,
    pages_checked: usize,
    pages_that_differ: Vec<u32>,
    /// Pages with words of which the text has none.
    pages_absent: Vec<u32>,
    pages: &'a [PageComparison],
    exit_code: u8,
}

pub async fn run(context: &Context, args: Verify) -> Result<Exit, Problem> {
    let password = match args.password_stdin {
        true => Some(password::from_stdin()?),
        false => args.password.map(Secret::new),
    };
    let text = read_text(&args.text)?;
    let document = read_document(context, &args.document, password.as_ref()).await?;
    let pages = compare::compare(&document, compare::parse(&text));
    let differ: Vec<u32> =
        pages.iter().filter(|page| !page.agrees(args.agreement)).map(|page| page.page).collect();
    let absent: Vec<u32> = pages.iter().filter(|page| page.is_absent()).map(|page| page.page).collect();
    let exit = match (differ.is_empty(), absent.is_empty()) {
        (true, _) => Exit::Complete,
        (false, true) => Exit::Fallback,
        (false, false) => Exit::Missing,
    };
    let checked = pages.iter().filter(|page| page.not_checked.is_none()).count();
    if args.json {
        context.screen.print_json(&Verdict {
            agrees: differ.is_empty(),
            minimum_agreement: args.agreement,
            pages_checked: checked,
            pages_that_differ: differ,
            pages_absent: absent,
            pages: &pages,
            exit_code: exit.code(),
        })?;
        return Ok(exit);
    }
    context.screen.print(table(&pages, args.all, args.agreement).as_bytes())?;
    let unchecked = pages.len() - checked;
    let mut summary = match differ.len() {
        0 => format!("{} checked, all agree", human::count(checked, "page", "pages")),
        differ => format!("{} checked, {differ} differ", human::count(checked, "page", "pages")),
    };
    if unchecked > 0 {
        summary.push_str(&format!(", {unchecked} without a text to check against"));
    }
    context.screen.note(&summary);
    Ok(exit)
}

fn read_text(path: &Path) -> Result<String, Problem> {
    let unreadable = |error: &dyn std::fmt::Display| Problem::Usage(format!("{}: {error}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if size > MAX_TEXT_BYTES {
        return Err(unreadable(&format!("it has {size} bytes; the limit is {MAX_TEXT_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(&error))?;
    String::from_utf8(bytes).map_err(|_| unreadable(&"it is not text in UTF-8"))
}

/// The words of every page, as the document's own text layer has them, or OCR where there is none.
async fn read_document(
    context: &Context,
    file: &Path,
    password: Option<&Secret>,
) -> Result<BTreeMap<u32, Expected>, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::Failed(format!("{}: {error}", file.display()));
    let settings = context.settings()?;
    let (reader, tenant) = (pdf(settings)?, TenantId::new(settings.tenant.clone()));
    let source = PdfSource { file, password, tenant: &tenant };
    let count = reader.inspect(source, settings.step_timeout).await.map_err(|error| failed(&error))?;
    let options = ReadOptions { render: RenderPages::None, style: settings.image };
    let mut readings = Vec::new();
    for first in (1..=count).step_by(BATCH_SIZE as usize) {
        let last = count.min(first + BATCH_SIZE - 1);
        let pages: Vec<PageNumber> = (first..=last).filter_map(PageNumber::new).collect();
        readings.extend(reader.read(source, &pages, &options).await.map_err(|error| failed(&error))?);
    }
    let recognized = recognize(context, &reader, source, &mut readings).await?;
    let blocks: Vec<PageBlocks<'_>> = readings
        .iter()
        .map(|page| PageBlocks {
            number: page.number.get(),
            page: page.page,
            blocks: &page.blocks,
            images: &page.images,
        })
        .collect();
    let findings = Findings::of(&blocks);
    let pages = readings.into_iter().map(|mut page| {
        findings.apply(page.number.get(), page.page, &mut page.blocks);
        let text = plain_text(&page.blocks);
        let furniture = page.blocks.iter().filter(|block| block.kind.is_furniture());
        let optional = furniture.map(|block| block.text.as_str()).collect::<Vec<_>>().join("\n");
        let confidence = recognized.get(&page.number);
        let unknown = match page.reason {
            _ if confidence.is_some_and(|sure| *sure < MIN_OCR_CONFIDENCE) => Some("hard to read for OCR"),
            _ if confidence.is_some() && !text.trim().is_empty() => None,
            Reason::Scanned | Reason::NoTextLayer if text.trim().is_empty() => Some("no text layer"),
            Reason::Image if text.trim().is_empty() => Some("no text layer"),
            Reason::GarbageText => Some("garbage in its text layer"),
            Reason::Unreadable => Some("unreadable"),
            _ => None,
        };
        let (words, optional) = (words(&text), words(&optional));
        let is_recognized = confidence.is_some();
        (page.number.get(), Expected { words, optional, unknown, is_recognized })
    });
    Ok(pages.collect())
}

/// Gives the pages without a sound text layer what OCR reads there, if it is installed, and returns how sure it is.
async fn recognize(
    context: &Context,
    reader: &IsolatedPdf,
    source: PdfSource<'_>,
    readings: &mut [PageReading],
) -> Result<HashMap<PageNumber, f32>, Problem> {
    let settings = context.settings()?;
    let found: Vec<&mut PageReading> = readings
        .iter_mut()
        .filter(|page| needs_ocr(settings.ocr, &StoredPage::from(PageReading::clone(page))))
        .collect();
    let engine = ocr()?;
    // To check a text is no reason to build the program for minutes.
    if found.is_empty() || engine.will_be_built() {
        return Ok(HashMap::new());
    }
    if let Err(error) = engine.check(&settings.ocr_languages).await {
        context.screen.note(&format!("pages without a text layer are not checked: {error}"));
        return Ok(HashMap::new());
    }
    let (engine, languages) = (&engine, &settings.ocr_languages);
    let each = found.into_iter().map(|page| async move {
        let read = recognize_page(engine, reader, source, page, languages).await?;
        page.blocks = read.blocks;
        Some((page.number, read.confidence.get()))
    });
    Ok(stream::iter(each)
        .buffer_unordered(engine.parallel_pages())
        .filter_map(std::future::ready)
        .collect()
        .await)
}

/// `None` for a page that can't be rendered or recognized: it is not checked.
async fn recognize_page(
    engine: &TesseractOcr,
    reader: &IsolatedPdf,
    source: PdfSource<'_>,
    page: &PageReading,
    languages: &[String],
) -> Option<OcrReading> {
    let options = ReadOptions { render: RenderPages::All, style: OCR_IMAGE };
    let rendered = reader.read(source, &[page.number], &options).await.ok()?;
    let image = rendered.into_iter().next()?.image?;
    let priority = OcrPriority::Needed;
    let request = OcrRequest { image: &image, page: page.page, languages, priority, time: OCR_PAGE_TIMEOUT };
    engine.recognize(request).await.ok()
}

/// A line for each page that differs, or for all.
fn table(pages: &[PageComparison], all: bool, minimum: f64) -> String {
    let mut table =
        Table::new(["PAGE", "WORDS", "IN TEXT", "MISSING", "INVENTED", "MOVED", "AGREES", "WHAT"])
            .right(&[0, 1, 2, 3, 4, 5, 6]);
    let shown: Vec<&PageComparison> = pages.iter().filter(|page| all || !page.agrees(minimum)).collect();
    if shown.is_empty() {
        return String::new();
    }
    for page in shown {
        let signed = |sign: char, words: &[String]| {
            words.iter().map(|word| format!("{sign}{word}")).collect::<Vec<_>>()
        };
        let examples =
            [signed('-', &page.missing_words), signed('+', &page.invented_words)].concat().join(" ");
        let (agreement, what) = match page.not_checked {
            Some(reason) => ("-".to_owned(), reason.to_owned()),
            None if page.is_absent() => ("0 %".to_owned(), "the page is missing".to_owned()),
            None => (format!("{:.1} %", page.agreement * 100.0), examples),
        };
        table.row([
            page.page.to_string(),
            page.words.to_string(),
            page.words_in_text.to_string(),
            page.missing.to_string(),
            page.invented.to_string(),
            page.out_of_order.to_string(),
            agreement,
            what,
        ]);
    }
    let mut text = table.lines(terminal_width()).join("\n");
    text.push('\n');
    text
}
