//! The text layer of searchable PDFs: where its words are, as a reader of the file finds them.

use std::time::Duration;

use everypage_core::{
    document::{
        Confidence, ImageColor, ImageFormat, ImageStyle, LayerSpan, PageBox, PageImage, PageWord, place,
        plain_text,
    },
    ids::PageNumber,
    ports::{
        ocr::{Ocr, OcrPriority, OcrRequest},
        pdf::{PageLayer, ReadOptions, RenderPages},
    },
};
use everypage_pdf::ReadMode;
use mupdf::TextPageFlags;

use crate::{
    ocr::{engine, languages},
    support::{Saved, open, save},
};

/// How far the corners of a word may be from where it is, on average, in points.
const MAX_DISTANCE: f32 = 3.0;

fn sample() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/harbour-report-2026.pdf")).unwrap()
}

/// The words of a page with the corners of their quads, and the number of their line.
fn words_of(pdf: &[u8], page: i32) -> Vec<(String, [f32; 4], u32)> {
    let document = mupdf::Document::from_bytes(pdf, "application/pdf").unwrap();
    let text = document.load_page(page).unwrap().to_text_page(TextPageFlags::empty()).unwrap();
    let mut words = Vec::new();
    let lines = text.blocks().flat_map(|block| block.lines().map(|line| line.chars().collect::<Vec<_>>()).collect::<Vec<_>>());
    for (number, line) in (0..).zip(lines) {
        for word in line.split(|c| c.char().is_none_or(char::is_whitespace)).filter(|word| !word.is_empty()) {
            let text: String = word.iter().filter_map(mupdf::TextChar::char).collect();
            let quads: Vec<_> = word.iter().map(mupdf::TextChar::quad).collect();
            let corner = |x: fn(f32, f32) -> f32, of: fn(&mupdf::Quad) -> [f32; 2]| {
                quads.iter().flat_map(of).reduce(x).unwrap()
            };
            let area = [
                corner(f32::min, |quad| [quad.ul.x, quad.ll.x]),
                corner(f32::min, |quad| [quad.ul.y, quad.ur.y]),
                corner(f32::max, |quad| [quad.ur.x, quad.lr.x]),
                corner(f32::max, |quad| [quad.ll.y, quad.lr.y]),
            ];
            words.push((text, area, number));
        }
    }
    words
}

/// A scan of the sample's page of prose: its file, its image, its page, and the words that were on the page.
struct Scan {
    file: Saved,
    image: PageImage,
    page: PageBox,
    words: Vec<PageWord>,
}

fn scan() -> Scan {
    let style =
        ImageStyle { dpi: 200, color: ImageColor::Gray, format: ImageFormat::Png, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::All, style };
    let original = save(sample());
    let read = open(&original.path).read_page(PageNumber::new(3).unwrap(), &options, ReadMode::Normal);
    let image = read.image.unwrap();
    let file = save(&image.bytes);
    let page = open(&file.path).read_page(PageNumber::new(1).unwrap(), &options, ReadMode::Normal).page;
    let scale = page.width() as f32 / read.page.width() as f32;
    let words = words_of(&sample(), 2).into_iter().map(|(text, area, line)| PageWord {
        text,
        area: PageBox(area.map(|value| (value * scale).round() as i32)),
        line,
        confidence: Confidence::new(1.0),
        turns: 0,
    });
    Scan { words: words.collect(), file, image, page }
}

impl Scan {
    fn with_layer(&self, spans: Vec<LayerSpan>) -> Vec<u8> {
        let layer = PageLayer { page: PageNumber::new(1).unwrap(), spans };
        open(&self.file.path).into_searchable(vec![layer]).unwrap()
    }
}

/// The mean distance of the corners of words that both have, in order, and how many these are.
fn distance(made: &[(String, [f32; 4], u32)], truth: &[PageWord]) -> (f32, usize) {
    let (mut sum, mut count, mut next) = (0.0, 0, 0);
    for word in truth {
        let Some(at) = made[next..].iter().take(20).position(|(text, ..)| *text == word.text) else { continue };
        let (_, area, _) = &made[next + at];
        next += at + 1;
        let corners = area.iter().zip(word.area.0).map(|(made, truth)| (made - truth as f32).powi(2));
        sum += (corners.sum::<f32>() / 2.0).sqrt();
        count += 1;
    }
    (sum / count as f32, count)
}

fn joined(words: &[(String, [f32; 4], u32)]) -> String {
    words.iter().map(|(text, ..)| text.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn words_are_where_they_are_known_and_in_the_order_of_the_text() {
    let scan = scan();
    assert!(scan.words.len() > 200);
    // As a model writes it: a title, other line ends, a word of its own, a figure described.
    let mut text: Vec<String> = scan.words.iter().map(|word| word.text.clone()).collect();
    text.insert(40, "[a photo of the northern quay]".to_owned());
    text[100] = "quite".to_owned();
    let text = text.join("\n");
    let made = words_of(&scan.with_layer(place(&text, &scan.words)), 0);
    assert_eq!(joined(&made), text.split_whitespace().collect::<Vec<_>>().join(" "));
    let (distance, count) = distance(&made, &scan.words);
    assert!(count >= scan.words.len() - 2, "{count} of {}", scan.words.len());
    assert!(distance < MAX_DISTANCE, "{distance} points");
}

#[test]
fn a_page_that_lies_on_its_side_has_its_words_where_they_lie() {
    let scan = scan();
    let (width, height) = (scan.page.width(), scan.page.height());
    // As if the sheet had been turned before it was scanned: it is square enough for the boxes of one line.
    let words: Vec<PageWord> = scan.words[20..26]
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let (x, y) = (width / 2, height - 100 - 60 * at as i32);
            PageWord { area: PageBox([x, y - 50, x + 12, y]), line: 0, turns: 1, ..word.clone() }
        })
        .collect();
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let made = words_of(&scan.with_layer(place(&text, &words)), 0);
    assert_eq!(joined(&made), text);
    for ((_, made, _), truth) in made.iter().zip(&words) {
        let far = made.iter().zip(truth.area.0).map(|(made, truth)| (made - truth as f32).abs());
        assert!(far.fold(0.0, f32::max) < MAX_DISTANCE, "{made:?} {truth:?}");
    }
}

#[tokio::test]
async fn a_scan_read_by_ocr_has_its_words_where_they_are() {
    let Some(engine) = engine() else { return };
    let scan = scan();
    let request = OcrRequest {
        image: &scan.image,
        page: scan.page,
        languages: &languages(),
        priority: OcrPriority::Needed,
        time: Duration::from_secs(60),
    };
    let read = engine.recognize(request).await.unwrap();
    let text = plain_text(&read.blocks);
    let made = words_of(&scan.with_layer(place(&text, &read.words)), 0);
    assert_eq!(joined(&made), text.split_whitespace().collect::<Vec<_>>().join(" "));
    let (to_ocr, count) = distance(&made, &read.words);
    assert!(count * 100 >= read.words.len() * 90, "{count} of {}", read.words.len());
    assert!(to_ocr < MAX_DISTANCE, "{to_ocr} points from the words of OCR");
    let (to_truth, count) = distance(&made, &scan.words);
    assert!(count * 100 >= scan.words.len() * 80, "{count} of {}", scan.words.len());
    assert!(to_truth < MAX_DISTANCE, "{to_truth} points from the words of the page");
}
