//! Images as documents.

use everypage_core::{
    document::{Classification, ImageFormat, ImageStyle, PageReading, Reason},
    ports::pdf::{Pdf, PdfError, PdfLimits, ReadOptions, RenderPages},
};
use everypage_hostile::picture::{Pixels, chunk, png, tiff};
use image_webp::{ColorType, WebPEncoder};

use crate::support::{OPEN_TIMEOUT, limits, of, pages, reader, save};

const RED: [u8; 3] = [220, 20, 20];
const BLUE: [u8; 3] = [20, 20, 220];
const GREEN: [u8; 3] = [20, 200, 20];

/// Wide, with a red corner at the upper left, a blue one at the upper right, the rest green.
fn picture() -> Pixels {
    Pixels::new(120, 60, |x, y| match (x, y) {
        (0..30, 0..30) => RED,
        (90.., 0..30) => BLUE,
        _ => GREEN,
    })
}

fn jpeg(pixels: &Pixels) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut bytes, 95);
    let (width, height) = (pixels.width as u16, pixels.height as u16);
    encoder.encode(&pixels.rgb, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    bytes
}

fn webp(pixels: &Pixels) -> Vec<u8> {
    let mut bytes = Vec::new();
    WebPEncoder::new(&mut bytes).encode(&pixels.rgb, pixels.width, pixels.height, ColorType::Rgb8).unwrap();
    bytes
}

/// EXIF data with an orientation alone.
fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    exif
}

fn turned_jpeg(orientation: u8) -> Vec<u8> {
    let exif = exif(orientation);
    let length = (exif.len() as u16 + 8).to_be_bytes();
    let plain = jpeg(&picture());
    [&plain[..2], b"\xff\xe1", &length, b"Exif\0\0", &exif, &plain[2..]].concat()
}

async fn read(bytes: Vec<u8>, limits: PdfLimits) -> Result<Vec<PageReading>, PdfError> {
    let (saved, reader) = (save(bytes), reader(limits, 1));
    let count = reader.inspect(of(&saved.path), OPEN_TIMEOUT).await?;
    let style = ImageStyle { dpi: 96, format: ImageFormat::Png, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::Graphics, style };
    reader.read(of(&saved.path), &pages(1..=count), &options).await
}

/// The colour at a place of the rendered page, given in shares of its sides.
fn color(reading: &PageReading, x: f32, y: f32) -> [u8; 3] {
    let image = reading.image.as_ref().unwrap();
    let decoder = png::Decoder::new(std::io::Cursor::new(&image.bytes));
    let mut pixels = decoder.read_info().unwrap();
    let mut buffer = vec![0; pixels.output_buffer_size().unwrap()];
    pixels.next_frame(&mut buffer).unwrap();
    let (x, y) = ((x * image.width_px as f32) as usize, (y * image.height_px as f32) as usize);
    let at = (y * image.width_px as usize + x) * 3;
    [buffer[at], buffer[at + 1], buffer[at + 2]]
}

#[track_caller]
fn looks_like(seen: [u8; 3], expected: [u8; 3]) {
    assert!(seen.iter().zip(expected).all(|(seen, expected)| seen.abs_diff(expected) < 30), "{seen:?}");
}

#[tokio::test]
async fn each_format_is_a_scan_of_one_page() {
    for (name, bytes) in [
        ("png", png(&picture())),
        ("jpeg", jpeg(&picture())),
        ("tiff", tiff(&[picture()], &[])),
        ("webp", webp(&picture())),
    ] {
        let readings = read(bytes, limits()).await.unwrap();
        let [page] = &readings[..] else { panic!("{name}: {} pages", readings.len()) };
        assert_eq!((page.fault.as_deref(), page.reason), (None, Reason::Scanned), "{name}");
        assert_eq!(page.reason.classification(), Classification::HasGraphics);
        assert_eq!(page.text, "");
        let image = page.image.as_ref().unwrap();
        assert_eq!((image.width_px, image.height_px), (120, 60), "{name}");
        looks_like(color(page, 0.1, 0.2), RED);
        looks_like(color(page, 0.9, 0.2), BLUE);
        looks_like(color(page, 0.5, 0.8), GREEN);
    }
}

#[tokio::test]
async fn each_picture_of_a_tiff_is_a_page() {
    let plain = |color: [u8; 3]| Pixels::new(40, 30, move |_, _| color);
    let readings = read(tiff(&[plain(RED), plain(GREEN), plain(BLUE)], &[]), limits()).await.unwrap();
    assert_eq!(readings.len(), 3);
    for (page, expected) in readings.iter().zip([RED, GREEN, BLUE]) {
        looks_like(color(page, 0.5, 0.5), expected);
    }
}

#[tokio::test]
async fn a_picture_that_was_held_on_its_side_is_turned() {
    // Where the red and the blue corner belong, by orientation; then the sides are exchanged or not.
    let expected = [
        (1, (0.1, 0.1), (0.9, 0.1), false),
        (2, (0.9, 0.1), (0.1, 0.1), false),
        (3, (0.9, 0.9), (0.1, 0.9), false),
        (4, (0.1, 0.9), (0.9, 0.9), false),
        (5, (0.1, 0.1), (0.1, 0.9), true),
        (6, (0.9, 0.1), (0.9, 0.9), true),
        (7, (0.9, 0.9), (0.9, 0.1), true),
        (8, (0.1, 0.9), (0.1, 0.1), true),
    ];
    for (orientation, red, blue, is_swapped) in expected {
        let plain = png(&picture());
        let png = [&plain[..33], &chunk(b"eXIf", &exif(orientation)), &plain[33..]].concat();
        let tiff = tiff(&[picture()], &[(274, 3, 1, orientation.into())]);
        for (name, bytes) in [("jpeg", turned_jpeg(orientation)), ("png", png), ("tiff", tiff)] {
            let page = read(bytes, limits()).await.unwrap().remove(0);
            let image = page.image.as_ref().unwrap();
            assert_eq!(image.width_px < image.height_px, is_swapped, "{name} {orientation}");
            looks_like(color(&page, red.0, red.1), RED);
            looks_like(color(&page, blue.0, blue.1), BLUE);
        }
    }
}

#[tokio::test]
async fn limits_have_clear_errors() {
    let small = PdfLimits { max_image_pixels: 7199, ..limits() };
    for bytes in [png(&picture()), jpeg(&picture()), tiff(&[picture()], &[]), webp(&picture())] {
        let error = read(bytes, small).await.unwrap_err();
        assert_eq!(error.code(), "bad_image");
        let said = error.to_string();
        assert!(
            said.contains("it has 7200 pixels (120 x 60); the limit is 7199 (MAX_IMAGE_PIXELS)"),
            "{said}"
        );
    }
    // A page that is too large costs itself alone.
    let tiny = Pixels::new(5, 5, |_, _| RED);
    let readings = read(tiff(&[tiny, picture()], &[]), small).await.unwrap();
    assert_eq!(readings[0].fault, None);
    assert!(readings[1].fault.as_ref().unwrap().contains("MAX_IMAGE_PIXELS"));
    let few = PdfLimits { max_pages: 2, ..limits() };
    let many: Vec<Pixels> = (0..5).map(|_| Pixels::new(2, 2, |_, _| RED)).collect();
    assert_eq!(read(tiff(&many, &[]), few).await, Err(PdfError::TooManyPages { pages: 3, limit: 2 }));
}

#[tokio::test]
async fn damaged_images_are_errors_or_pages_without_text() {
    for bytes in [png(&picture()), jpeg(&picture()), tiff(&[picture()], &[]), webp(&picture())] {
        for part in [8, 30, 60, 90] {
            let mut cut = bytes.clone();
            cut.truncate((bytes.len() * part / 100).max(13));
            match read(cut, limits()).await {
                Ok(readings) => assert_eq!(readings.len(), 1),
                Err(error) => assert_eq!(error.code(), "bad_image", "{error}"),
            }
        }
    }
}
