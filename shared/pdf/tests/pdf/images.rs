//! Images decode and have the requested size.

use everypage_core::{
    document::{ImageColor, ImageFormat, ImageStyle, PageImage},
    ids::PageNumber,
    ports::pdf::{PdfLimits, ReadOptions, RenderPages},
};
use everypage_pdf::{Document, ReadMode};

use crate::support::{
    builder::{A4, Page, document},
    open, save,
};

fn render(page: Page, style: ImageStyle) -> PageImage {
    let saved = save(document(&[page]));
    let limits = PdfLimits { max_page_points: 30_000, ..PdfLimits::default() };
    let options = ReadOptions { render: RenderPages::All, style };
    let reading = Document::open(&saved.path, None, &limits).unwrap().read_page(
        PageNumber::new(1).unwrap(),
        &options,
        ReadMode::Normal,
    );
    assert_eq!(reading.fault, None);
    reading.image.unwrap()
}

/// Width, height, components and samples, by an independent decoder.
fn decode(image: &PageImage) -> (u32, u32, usize, Vec<u8>) {
    match image.format {
        ImageFormat::Jpeg => {
            let mut decoder = jpeg_decoder::Decoder::new(image.bytes.as_slice());
            let samples = decoder.decode().unwrap();
            let info = decoder.info().unwrap();
            (info.width.into(), info.height.into(), info.pixel_format.pixel_bytes(), samples)
        }
        ImageFormat::Png => {
            let mut reader = png::Decoder::new(std::io::Cursor::new(&image.bytes)).read_info().unwrap();
            let mut samples = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut samples).unwrap();
            (info.width, info.height, info.color_type.samples(), samples)
        }
    }
}

#[test]
fn every_format_and_color_decodes_with_its_size_and_shows_the_page() {
    for (format, color, components) in [
        (ImageFormat::Jpeg, ImageColor::Rgb, 3),
        (ImageFormat::Jpeg, ImageColor::Gray, 1),
        (ImageFormat::Png, ImageColor::Rgb, 3),
        (ImageFormat::Png, ImageColor::Gray, 1),
    ] {
        let style = ImageStyle { dpi: 144, format, color, jpeg_quality: 90 };
        // The lower half is red, so that rotated, swapped or skewed samples are detected.
        let image = render(Page::new("1 0 0 rg 0 0 300 200 re f\n").size(300.0, 400.0), style);
        let (width, height, found, samples) = decode(&image);
        assert_eq!((width, height, found), (600, 800, components));
        assert_eq!((image.width_px, image.height_px), (600, 800));
        let at = |x: usize, y: usize| &samples[(y * 600 + x) * components..][..components];
        assert!(at(300, 100).iter().all(|&value| value > 250), "white above: {:?}", at(300, 100));
        match color {
            ImageColor::Rgb => assert!(at(300, 700)[0] > 240 && at(300, 700)[1] < 16 && at(300, 700)[2] < 16),
            ImageColor::Gray => assert!((30..140).contains(&at(300, 700)[0]), "{:?}", at(300, 700)),
        }
    }
}

#[test]
fn an_image_over_the_limits_is_scaled_down_instead_of_failing() {
    let style = ImageStyle { dpi: 600, ..ImageStyle::default() };
    let image = render(Page::prose(1).size(14_000.0, 14_000.0), style);
    let pixels = u64::from(image.width_px) * u64::from(image.height_px);
    assert!((35_000_000..=41_000_000).contains(&pixels), "{pixels}");
}

#[test]
fn only_requested_pages_get_an_image() {
    let saved = save(document(&[Page::prose(1), Page::blank().image((0.0, 0.0, A4.0, A4.1))]));
    let document = open(&saved.path);
    let has_image = |render, number| {
        let options = ReadOptions { render, style: ImageStyle::default() };
        document.read_page(PageNumber::new(number).unwrap(), &options, ReadMode::Normal).image.is_some()
    };
    assert_eq!([1, 2].map(|number| has_image(RenderPages::None, number)), [false, false]);
    assert_eq!([1, 2].map(|number| has_image(RenderPages::Graphics, number)), [false, true]);
    assert_eq!([1, 2].map(|number| has_image(RenderPages::All, number)), [true, true]);
}
