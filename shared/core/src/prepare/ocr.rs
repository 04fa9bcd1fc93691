//! Recognizes pages without a sound text layer.
//!
//! What was recognized is stored page by page, apart from the text of ranges, which never changes: a page may be
//! recognized at any time, by any process, and twice. The first result is kept, a failure too, so that no page is
//! tried again and again. From then on the page's own text is the recognized one.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tracing::warn;

use crate::{
    document::{
        Block, Confidence, ImageColor, ImageFormat, ImageStyle, PageImage, PageReading, PageWord, Reason,
        plain_text,
    },
    ids::{JobId, PageNumber},
    job::{Job, StepCode, StepError, encode},
    keys::blob,
    ports::{
        blobs::Blobs,
        ocr::{OcrError, OcrPriority, OcrReading, OcrRequest},
        pdf::{ReadOptions, RenderPages},
    },
    prepare::{
        Preparer,
        images::stored_image,
        inspect::read_with,
        ranges::{CONCURRENT_READS, StoredPage, stored_ranges},
        structure::{find, findings},
    },
    settings::OcrPages,
    telemetry::metrics::OCR_SECONDS,
    tenants,
    time::until,
};

/// Tesseract's words are as good at 200 dpi as at 300, and take half of the time.
pub const OCR_IMAGE: ImageStyle =
    ImageStyle { dpi: 200, color: ImageColor::Gray, format: ImageFormat::Jpeg, jpeg_quality: 90 };
/// For one page, at a low priority. A dense page takes a second or two of a core.
pub const OCR_PAGE_TIMEOUT: Duration = Duration::from_secs(90);
/// A scan whose text layer has fewer letters is recognized: that is a stamp or a page number, not the page.
const MIN_LAYER_LETTERS: usize = 200;

/// The recognized text of a page, as it is stored, without its words: most readers need none of them.
#[derive(Serialize, Deserialize)]
struct Recognized {
    blocks: Vec<Block>,
    confidence: Confidence,
    /// Why there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// What is stored of a page.
#[derive(Serialize)]
struct WithWords {
    #[serde(flatten)]
    page: Recognized,
    words: Vec<PageWord>,
}

/// The words of a stored page; an older version stored none.
#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    words: Vec<PageWord>,
}

/// How the recognition of a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// It is stored, now or before.
    Stored,
    /// No page can be recognized here, for this reason.
    Unavailable(String),
}

/// Whether a page is to be recognized, unless an AI reads it.
pub fn needs_ocr(pages: OcrPages, page: &StoredPage) -> bool {
    let letters = || page.text.chars().filter(|c| c.is_alphanumeric()).count();
    match (pages, page.reason) {
        (OcrPages::Off, _) | (_, Reason::Blank | Reason::Unreadable) => false,
        (OcrPages::Always, _) | (_, Reason::NoTextLayer | Reason::GarbageText) => true,
        (OcrPages::Auto, Reason::Scanned) => letters() < MIN_LAYER_LETTERS,
        (
            OcrPages::Auto,
            Reason::Text
            | Reason::Image
            | Reason::VectorFigure
            | Reason::Equation
            | Reason::Table
            | Reason::Form,
        ) => letters() == 0,
    }
}

/// The pages of an understood job that are to be recognized unless an AI reads them, in order.
pub async fn to_recognize(blobs: &dyn Blobs, job: &Job) -> Result<Vec<StoredPage>, StepError> {
    let Some(survey) = job.survey.as_ref().filter(|survey| survey.ocr != OcrPages::Off) else {
        return Ok(vec![]);
    };
    let stored = stored_ranges(blobs, &job.id, &survey.ranges).await?;
    Ok(stored.into_iter().flatten().flatten().filter(|page| needs_ocr(survey.ocr, page)).collect())
}

/// Whether a page was recognized before, also in vain.
pub async fn is_recognized(blobs: &dyn Blobs, job: &JobId, page: PageNumber) -> Result<bool, StepError> {
    Ok(blobs.get(&blob::page_ocr(job, page)).await?.is_some())
}

/// Why this process can recognize no page of a job; `None` if it can.
pub async fn why_no_ocr(preparer: &Preparer, job: &Job) -> Result<Option<String>, StepError> {
    let settings = tenants::settings(&preparer.tenants, &job.received.tenant).await?;
    Ok(preparer.ocr.check(&settings.ocr_languages).await.err().map(|error| error.to_string()))
}

/// Recognizes a page and stores what was found, unless that is done already.
pub async fn recognize_page(
    preparer: &Preparer,
    job: &Job,
    page: &StoredPage,
    priority: OcrPriority,
) -> Result<Recognition, StepError> {
    let key = blob::page_ocr(&job.id, page.page);
    if preparer.blobs.get(&key).await?.is_some() {
        return Ok(Recognition::Stored);
    }
    let settings = tenants::settings(&preparer.tenants, &job.received.tenant).await?;
    let languages = &settings.ocr_languages;
    if let Err(error) = preparer.ocr.check(languages).await {
        return Ok(Recognition::Unavailable(error.to_string()));
    }
    let languages = &with_those_of_text(preparer, job, languages).await?;
    let (page, words) = match image(preparer, job, page.page).await? {
        None => (failed("the page could not be rendered".into()), vec![]),
        Some(image) => {
            let start = preparer.store.clock.now();
            let request =
                OcrRequest { image: &image, page: page.area, languages, priority, time: OCR_PAGE_TIMEOUT };
            let read = preparer.ocr.recognize(request).await;
            OCR_SECONDS.record([], until(start, preparer.store.clock.now()).as_secs_f64());
            match read {
                Ok(OcrReading { blocks, words, confidence }) => {
                    (Recognized { blocks, confidence, fault: None }, words)
                }
                Err(error @ OcrError::Unavailable(_)) => {
                    return Ok(Recognition::Unavailable(error.to_string()));
                }
                Err(OcrError::Page(reason)) => {
                    warn!(page = page.page.get(), reason, "page not recognized");
                    (failed(reason), vec![])
                }
            }
        }
    };
    preparer.blobs.put_new(&key, encode(&WithWords { page, words })?).await?;
    Ok(Recognition::Stored)
}

/// The languages of the settings, and those of the document's other pages whose data is installed.
async fn with_those_of_text(
    preparer: &Preparer,
    job: &Job,
    languages: &[String],
) -> Result<Vec<String>, StepError> {
    let mut all = languages.to_vec();
    let Some(findings) = findings(preparer.blobs.as_ref(), &job.id).await? else { return Ok(all) };
    for found in findings.languages() {
        if !all.contains(found) && preparer.ocr.check(std::slice::from_ref(found)).await.is_ok() {
            all.push(found.clone());
        }
    }
    Ok(all)
}

fn failed(reason: String) -> Recognized {
    Recognized { blocks: vec![], confidence: Confidence::new(0.0), fault: Some(reason) }
}

/// The page's image. Without the password, which is deleted once the text is read, it is the one that was rendered
/// for the models.
async fn image(preparer: &Preparer, job: &Job, page: PageNumber) -> Result<Option<PageImage>, StepError> {
    let options = ReadOptions { render: RenderPages::All, style: OCR_IMAGE };
    let readings = match read_with(preparer, job, &[page], options).await {
        Ok(readings) => readings,
        Err(StepError::Document(error)) => {
            let Some(stored) = stored_image(preparer.blobs.as_ref(), job, page).await? else {
                return Err(StepError::Document(error));
            };
            let format =
                if stored.mime == ImageFormat::Png.mime() { ImageFormat::Png } else { ImageFormat::Jpeg };
            let bytes = preparer.blobs.get(&stored.key).await?;
            let (width_px, height_px) = (stored.width_px, stored.height_px);
            return Ok(bytes.map(|bytes| PageImage { format, width_px, height_px, bytes }));
        }
        Err(error) => return Err(error),
    };
    Ok(readings.into_iter().find(|reading: &PageReading| reading.number == page).and_then(|read| read.image))
}

async fn recognized(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
) -> Result<Option<Recognized>, StepError> {
    stored(blobs, job, page).await
}

/// The words that were recognized on a page by now, in the order of its text.
pub async fn recognized_words(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
) -> Result<Vec<PageWord>, StepError> {
    Ok(stored::<Words>(blobs, job, page).await?.map(|stored| stored.words).unwrap_or_default())
}

async fn stored<T: DeserializeOwned>(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
) -> Result<Option<T>, StepError> {
    let key = blob::page_ocr(job, page);
    let Some(bytes) = blobs.get(&key).await? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StepError::Broken { code: StepCode::StoredText, reason: format!("{key}: {error}") })
}

/// What was recognized on a page by now, as plain text and how sure it is; `None` if nothing was.
pub async fn recognized_page(
    blobs: &dyn Blobs,
    job: &JobId,
    page: PageNumber,
) -> Result<Option<(String, Confidence)>, StepError> {
    let found = recognized(blobs, job, page).await?;
    let text = found.map(|found| (plain_text(&found.blocks), found.confidence));
    Ok(text.filter(|(text, _)| !text.trim().is_empty()))
}

/// Gives the pages for which `is_wanted` the text that was recognized on them by now.
pub async fn add_recognized(
    blobs: &dyn Blobs,
    job: &JobId,
    pages: OcrPages,
    stored: &mut [Option<Vec<StoredPage>>],
    is_wanted: impl Fn(PageNumber) -> bool,
) -> Result<(), StepError> {
    let wanted: Vec<&mut StoredPage> = stored
        .iter_mut()
        .flatten()
        .flatten()
        .filter(|page| is_wanted(page.page) && needs_ocr(pages, page))
        .collect();
    let reads: Vec<_> = wanted.iter().map(|page| recognized(blobs, job, page.page)).collect();
    let found: Vec<Option<Recognized>> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
    for (page, found) in wanted.into_iter().zip(found) {
        match found {
            Some(found) => page.recognize(found, pages),
            None => {
                page.awaits_ocr = true;
                if page.text.trim().is_empty() && page.fault.is_none() {
                    page.fault = Some("the page has no text layer and was not recognized by OCR".into());
                }
            }
        }
    }
    // Running headers and headings of scans are known only now.
    if stored.iter().flatten().flatten().any(|page| page.is_recognized) {
        let findings = find(stored.iter().flatten().flatten());
        for page in stored.iter_mut().flatten().flatten().filter(|page| page.is_recognized) {
            findings.apply(page.page.get(), page.area, &mut page.blocks);
            page.text = plain_text(&page.blocks);
        }
    }
    Ok(())
}

impl StoredPage {
    /// Takes over what was recognized, unless the text layer says more.
    fn recognize(&mut self, found: Recognized, pages: OcrPages) {
        let text = plain_text(&found.blocks);
        let is_layer_better = pages == OcrPages::Auto
            && self.reason != Reason::GarbageText
            && self.text.trim().len() >= text.trim().len();
        if text.trim().is_empty() || is_layer_better {
            self.fault = self.fault.take().or(found.fault);
            return;
        }
        self.text = text;
        self.blocks = found.blocks;
        self.confidence = found.confidence;
        self.doubts.clear();
        self.is_recognized = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PageBox;

    fn page(reason: Reason, text: &str) -> StoredPage {
        StoredPage {
            page: PageNumber::new(1).unwrap(),
            reason,
            text: text.into(),
            fault: None,
            area: PageBox::default(),
            blocks: vec![],
            images: vec![],
            confidence: Confidence::default(),
            doubts: vec![],
            without_images: None,
            is_recognized: false,
            awaits_ocr: false,
        }
    }

    fn found(text: &str) -> Recognized {
        let block = Block { text: text.into(), ..Block::default() };
        Recognized { blocks: vec![block], confidence: Confidence::new(0.8), fault: None }
    }

    #[test]
    fn pages_without_a_sound_text_layer_need_ocr() {
        let prose = "word ".repeat(100);
        for (reason, text, auto, always) in [
            (Reason::Text, prose.as_str(), false, true),
            (Reason::Image, prose.as_str(), false, true),
            (Reason::VectorFigure, "", true, true),
            (Reason::Table, prose.as_str(), false, true),
            (Reason::Form, prose.as_str(), false, true),
            (Reason::Scanned, "", true, true),
            (Reason::Scanned, "Scanned by a program", true, true),
            (Reason::Scanned, prose.as_str(), false, true),
            (Reason::NoTextLayer, "", true, true),
            (Reason::GarbageText, prose.as_str(), true, true),
            (Reason::Blank, "", false, false),
            (Reason::Unreadable, "", false, false),
        ] {
            let page = page(reason, text);
            assert_eq!(needs_ocr(OcrPages::Auto, &page), auto, "{reason:?} {text}");
            assert_eq!(needs_ocr(OcrPages::Always, &page), always, "{reason:?} {text}");
            assert!(!needs_ocr(OcrPages::Off, &page));
        }
    }

    #[test]
    fn words_are_stored_with_the_page_and_older_pages_have_none() {
        let word = PageWord { text: "quay".into(), line: 3, ..PageWord::default() };
        let bytes = encode(&WithWords { page: found("quay"), words: vec![word.clone()] }).unwrap();
        assert_eq!(serde_json::from_slice::<Words>(&bytes).unwrap().words, [word]);
        assert_eq!(plain_text(&serde_json::from_slice::<Recognized>(&bytes).unwrap().blocks), "quay");
        let older = encode(&found("quay")).unwrap();
        assert_eq!(serde_json::from_slice::<Words>(&older).unwrap().words, []);
    }

    #[test]
    fn recognized_text_replaces_less_text_and_garbage() {
        let mut stamp = page(Reason::Scanned, "Page 1");
        stamp.recognize(found("A whole letter"), OcrPages::Auto);
        assert_eq!((stamp.text.as_str(), stamp.is_recognized), ("A whole letter", true));

        let mut better = page(Reason::Scanned, "A whole letter");
        better.recognize(found("A letter"), OcrPages::Auto);
        assert_eq!((better.text.as_str(), better.is_recognized), ("A whole letter", false));
        better.recognize(found("A letter"), OcrPages::Always);
        assert!(better.is_recognized);

        let mut garbage = page(Reason::GarbageText, "7KLV LV JDUEDJH");
        garbage.recognize(found("This"), OcrPages::Auto);
        assert_eq!(garbage.text, "This");

        let mut empty = page(Reason::Scanned, "");
        empty.recognize(failed("it took too long".into()), OcrPages::Auto);
        assert_eq!((empty.fault.as_deref(), empty.is_recognized), (Some("it took too long"), false));
    }
}
