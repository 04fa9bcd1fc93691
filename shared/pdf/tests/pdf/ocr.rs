//! OCR with the real program, where `./test` has built it.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use everypage_core::{
    document::{ImageColor, ImageFormat, ImageStyle, PageBox, PageImage, plain_text},
    ids::PageNumber,
    ports::{
        ocr::{Ocr, OcrError, OcrPriority, OcrRequest},
        pdf::{ReadOptions, RenderPages},
    },
};
use everypage_pdf::{OcrProgram, ReadMode, TesseractOcr};

use crate::support::{
    builder::{self, Page, line_at},
    open, save,
};

/// `None` if the program is not built; `./test` builds it and then requires it.
pub(crate) fn engine() -> Option<TesseractOcr> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_everypage-pdf-child")).with_file_name("everypage-ocr");
    let required = std::env::var_os("EVERYPAGE_TEST_OCR").is_some();
    assert!(program.exists() || !required, "{} is missing", program.display());
    program.exists().then(|| TesseractOcr::new(OcrProgram::new(program)))
}

pub(crate) fn languages() -> Vec<String> {
    vec!["eng".to_owned()]
}

/// A page of prose: its image, its box and its words.
fn page_of_prose() -> (PageImage, PageBox, HashSet<String>) {
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../samples/harbour-report-2026.pdf");
    let style =
        ImageStyle { dpi: 200, color: ImageColor::Gray, format: ImageFormat::Png, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::All, style };
    let read = open(&sample).read_page(PageNumber::new(3).unwrap(), &options, ReadMode::Normal);
    (read.image.unwrap(), read.page, words(&read.text))
}

fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).map(str::to_lowercase).collect()
}

/// Turned by 90 degrees clockwise.
fn turned(image: &PageImage) -> PageImage {
    let mut reader = png::Decoder::new(std::io::Cursor::new(&image.bytes)).read_info().unwrap();
    let mut samples = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut samples).unwrap();
    let (width, height) = (image.width_px as usize, image.height_px as usize);
    let pixels: Vec<u8> = (0..width)
        .flat_map(|x| (0..height).rev().map(move |y| (x, y)))
        .map(|(x, y)| samples[y * width + x])
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, image.height_px, image.width_px);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    PageImage { width_px: image.height_px, height_px: image.width_px, bytes, ..*image }
}

#[tokio::test]
async fn a_page_is_read_whichever_way_it_lies() {
    let Some(engine) = engine() else { return };
    let (mut image, mut page, truth) = page_of_prose();
    for turns in 0..4 {
        let request = OcrRequest {
            image: &image,
            page,
            languages: &languages(),
            priority: OcrPriority::Needed,
            time: Duration::from_secs(60),
        };
        let read = engine.recognize(request).await.unwrap();
        let text = plain_text(&read.blocks);
        let found = words(&text).intersection(&truth).count();
        assert!(found * 100 >= truth.len() * 97, "{turns} turns: {found} of {} words:\n{text}", truth.len());
        assert!(read.confidence.get() > 0.8, "{:?}", read.confidence);
        let inside = |area: PageBox| area.right() <= page.right() + 2 && area.bottom() <= page.bottom() + 2;
        assert!(read.blocks.iter().all(|block| inside(block.area)), "{:?}", read.blocks);
        image = turned(&image);
        page = PageBox([0, 0, page.height(), page.width()]);
    }
}

#[tokio::test]
async fn a_ruled_table_on_a_scan_has_the_cells_of_its_lines() {
    let Some(engine) = engine() else { return };
    let cells = [
        ["Berth", "Depth at low water", "Built"],
        ["Northern quay", "4 metres", ""],
        ["Southern quay", "", "1894"],
        ["Eastern quay", "11 metres", "1978"],
    ];
    let mut content = String::from("1 w\n");
    for row in 0..=4 {
        content += &format!("60 {y} m 540 {y} l S\n", y = 700 - 24 * row);
    }
    for column in 0..=3 {
        content += &format!("{x} 604 m {x} 700 l S\n", x = 60 + 160 * column);
    }
    for (row, texts) in (0..).zip(cells) {
        for (column, text) in (0..).zip(texts).filter(|(_, text)| !text.is_empty()) {
            content += &line_at((68 + 160 * column) as f32, (684 - 24 * row) as f32, text);
        }
    }
    content += &line_at(60.0, 560.0, "The depths were measured in the summer of the year before.");
    let style =
        ImageStyle { dpi: 200, color: ImageColor::Gray, format: ImageFormat::Png, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::All, style };
    let saved = save(builder::document(&[Page::new(content)]));
    let page = open(&saved.path).read_page(PageNumber::new(1).unwrap(), &options, ReadMode::Normal);
    let request = OcrRequest {
        image: page.image.as_ref().unwrap(),
        page: page.page,
        languages: &languages(),
        priority: OcrPriority::Needed,
        time: Duration::from_secs(60),
    };
    let read = engine.recognize(request).await.unwrap();
    let table = read.blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
    let found: Vec<Vec<&str>> =
        table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
    assert_eq!(found, cells, "{:?}", read.blocks);
}

#[tokio::test]
async fn hostile_images_are_errors_of_their_page() {
    let Some(engine) = engine() else { return };
    let huge = {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 60_000, 60_000);
        encoder.set_color(png::ColorType::Grayscale);
        drop(encoder.write_header());
        bytes
    };
    for bytes in [vec![], b"%PDF-1.7".to_vec(), b"\xff\xd8\xff\xe0".to_vec(), huge] {
        let image = PageImage { format: ImageFormat::Png, width_px: 10, height_px: 10, bytes };
        let request = OcrRequest {
            image: &image,
            page: PageBox([0, 0, 600, 800]),
            languages: &languages(),
            priority: OcrPriority::Needed,
            time: Duration::from_secs(20),
        };
        assert!(matches!(engine.recognize(request).await, Err(OcrError::Page(_))));
    }
}

#[tokio::test]
async fn a_page_of_noise_ends_in_its_time() {
    let Some(engine) = engine() else { return };
    // Millions of dots, each of which may be a letter.
    let (width, height) = (2_000_u32, 2_800_u32);
    let mut state = 1_u32;
    let pixels: Vec<u8> = (0..width * height)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 29 == 0 { 0 } else { 255 }
        })
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    let image = PageImage { format: ImageFormat::Png, width_px: width, height_px: height, bytes };
    let page = PageBox([0, 0, 720, 1008]);
    let request = OcrRequest {
        image: &image,
        page,
        languages: &languages(),
        priority: OcrPriority::Needed,
        time: Duration::from_secs(2),
    };
    // It may find nothing, or be killed; what counts is that it ends.
    let ended = tokio::time::timeout(Duration::from_secs(20), engine.recognize(request)).await;
    assert!(ended.is_ok());
}

#[tokio::test]
async fn missing_data_and_programs_are_no_faults_of_a_page() {
    let missing = TesseractOcr::new(OcrProgram::new("/nowhere/everypage-ocr"));
    let unavailable = missing.check(&["xyz".to_owned()]).await.unwrap_err();
    assert!(unavailable.to_string().contains("tesseract-ocr-xyz"), "{unavailable}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("xyz.traineddata"), "no data").unwrap();
    let missing = TesseractOcr::new(OcrProgram::new("/nowhere/everypage-ocr").with_data(folder.path()));
    let unavailable = missing.check(&["xyz".to_owned()]).await.unwrap_err();
    assert!(unavailable.to_string().contains("/nowhere/everypage-ocr is missing"), "{unavailable}");
    // A builder that fails runs once, and the reason is kept.
    let failing = OcrProgram::new("/nowhere/everypage-ocr").with_data(folder.path()).built_by("/bin/false");
    let failing = TesseractOcr::new(failing);
    assert_eq!(failing.check(&["xyz".to_owned()]).await, Ok(()));
    let (image, page, _) = page_of_prose();
    let request = OcrRequest {
        image: &image,
        page,
        languages: &["xyz".to_owned()],
        priority: OcrPriority::Needed,
        time: Duration::from_secs(5),
    };
    for _ in 0..2 {
        let error = failing.recognize(request).await.unwrap_err();
        assert!(matches!(&error, OcrError::Unavailable(reason) if reason.contains("/bin/false")), "{error}");
    }
}
