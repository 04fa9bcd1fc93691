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
    support::{
        Saved,
        builder::{self, Page, line_at},
        open, save,
    },
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
    let (mut words, mut number) = (Vec::new(), 0);
    for block in text.blocks() {
        for line in block.lines() {
            let mut word: Option<(String, [f32; 4], u32)> = None;
            for item in line.chars() {
                match item.char().filter(|c| !c.is_whitespace()) {
                    None => words.extend(word.take()),
                    Some(c) => {
                        let quad = item.quad();
                        let start = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
                        let (text, area, _) = word.get_or_insert((String::new(), start, number));
                        text.push(c);
                        for point in [quad.ul, quad.ur, quad.ll, quad.lr] {
                            let [x0, y0, x1, y1] = *area;
                            *area = [x0.min(point.x), y0.min(point.y), x1.max(point.x), y1.max(point.y)];
                        }
                    }
                }
            }
            words.extend(word);
            number += 1;
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
        let Some(at) = made[next..].iter().take(20).position(|(text, ..)| *text == word.text) else {
            continue;
        };
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

/// A model describes the picture between two lines; the lines stay where they are and are there once.
#[test]
fn a_page_with_some_text_gets_what_it_lacks_where_it_belongs() {
    let content = format!(
        "{}{}",
        line_at(72.0, 720.0, "The depth of the harbour basin"),
        line_at(72.0, 300.0, "is shown in the figure above")
    );
    let file = save(builder::document(&[Page::new(content).image((72.0, 350.0, 400.0, 300.0))]));
    let chart = "A bar chart of six berths, from the northern quay with four metres of water to the eastern one with \
        eleven metres, each bar labelled with the year in which the berth was built, from 1894 to 1978";
    let text = format!("The depth of the harbour basin\n{chart}\nis shown in the figure above");
    let spans = vec![LayerSpan::Text { text, area: None }];
    let layer = PageLayer { page: PageNumber::new(1).unwrap(), spans };
    let made = words_of(&open(&file.path).into_searchable(vec![layer]).unwrap(), 0);
    assert_eq!(joined(&made), format!("The depth of the harbour basin is shown in the figure above {chart}"));
    let (own, added) = made.split_at(12);
    let (first, last) = (own[0].1, own[11].1);
    assert!(added.iter().all(|(_, area, _)| area[1] > first[1] && area[3] < last[3]), "{added:?}");
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
