//! An image as a document: each picture is a page.
//!
//! MuPDF decodes PNG, JPEG and TIFF when the page is drawn; WebP, which it does not know, is decoded here.

mod tags;
mod webp;

use std::cell::RefCell;

use everypage_core::{
    document::DocumentKind,
    ports::pdf::{PdfError, PdfLimits},
};
use mupdf::{ColorParams, Device, DisplayList, Image, Matrix, Rect};

use self::tags::{Orientation, Tags};
use crate::document::message;

/// A declared resolution is believed from here on: what is lower or absent comes from a camera or a screen,
/// and says nothing about the size of what is shown.
const MIN_SCAN_DPI: f32 = 150.0;
const MAX_SCAN_DPI: f32 = 2400.0;
/// What a screen shows without a word about its size.
const SCREEN_DPI: f32 = 96.0;
/// A4, in square points. A photo has this area at most, so that it is rendered as sharp as a page.
const PAGE_AREA: f32 = 595.0 * 842.0;

/// An image file, in memory.
pub(crate) struct ImageFile {
    kind: DocumentKind,
    /// The header of a TIFF is set to the picture that is to be decoded.
    bytes: RefCell<Vec<u8>>,
    /// Where each picture of a TIFF is described; one entry for other kinds.
    pictures: Vec<u32>,
    max_pixels: u64,
}

/// A picture, and how it lies on its page.
pub(crate) struct Picture {
    pub image: Image,
    /// Width and height of the page, in points.
    pub size: (f32, f32),
    /// Maps the picture's unit square, its first row above, onto the page's.
    pub orientation: Orientation,
}

impl ImageFile {
    /// Finds the pictures. The first must have a readable header; the others are read when they are drawn.
    pub fn open(bytes: Vec<u8>, kind: DocumentKind, limits: &PdfLimits) -> Result<Self, PdfError> {
        let pictures = match kind {
            DocumentKind::Tiff => {
                let tags = Tags::parse(&bytes);
                let directories = tags.map(|tags| tags.directories(limits.max_pages as usize + 1));
                directories.unwrap_or_default()
            }
            _ => vec![0],
        };
        if pictures.is_empty() {
            return Err(PdfError::BadImage("it has no picture".into()));
        }
        let file = Self { kind, bytes: RefCell::new(bytes), pictures, max_pixels: limits.max_image_pixels };
        file.picture(0).map_err(PdfError::BadImage)?;
        Ok(file)
    }

    pub fn page_count(&self) -> u32 {
        u32::try_from(self.pictures.len()).unwrap_or(u32::MAX)
    }

    /// Reads a picture's header; its pixels are decoded when it is drawn, except for WebP.
    pub fn picture(&self, index: usize) -> Result<Picture, String> {
        let offset = *self.pictures.get(index).ok_or("there is no such picture")?;
        let mut bytes = self.bytes.borrow_mut();
        let (image, orientation) = match self.kind {
            DocumentKind::WebP => {
                let (image, exif) = webp::decode(&bytes, self.max_pixels)?;
                (image, exif.as_deref().and_then(tags::exif_orientation))
            }
            kind => {
                let orientation = match kind {
                    DocumentKind::Tiff => {
                        tags::select(&mut bytes, offset);
                        Tags::parse(&bytes).and_then(|tags| tags.orientation(offset))
                    }
                    DocumentKind::Jpeg => tags::jpeg_orientation(&bytes),
                    _ => tags::png_orientation(&bytes),
                };
                (Image::from_bytes(&bytes).map_err(message)?, orientation)
            }
        };
        let (width, height) = (image.width(), image.height());
        check_pixels(width, height, self.max_pixels)?;
        let orientation = orientation.unwrap_or_default();
        let (width, height) = page_size((width as f32, height as f32), image.resolution());
        let size = if orientation.swaps_sides() { (height, width) } else { (width, height) };
        Ok(Picture { image, size, orientation })
    }

    /// The page of a picture.
    pub fn page(&self, index: usize) -> Result<DisplayList, String> {
        let picture = self.picture(index)?;
        let (width, height) = picture.size;
        let mut list = DisplayList::new(Rect::new(0.0, 0.0, width, height)).map_err(message)?;
        let device = Device::from_display_list(&mut list).map_err(message)?;
        let drawn = device.fill_image(&picture.image, &picture.matrix(), 1.0, ColorParams::default());
        drop(device);
        drawn.map_err(message)?;
        Ok(list)
    }
}

impl Picture {
    /// From the picture's unit square to the page, in points.
    pub fn matrix(&self) -> Matrix {
        let [a, b, c, d, e, f] = self.orientation.matrix();
        let (width, height) = self.size;
        Matrix::new(a * width, b * height, c * width, d * height, e * width, f * height)
    }
}

fn check_pixels(width: u32, height: u32, limit: u64) -> Result<(), String> {
    let pixels = u64::from(width) * u64::from(height);
    match pixels {
        0 => Err("it has no pixels".into()),
        pixels if pixels > limit => Err(format!(
            "it has {pixels} pixels ({width} x {height}); the limit is {limit} (MAX_IMAGE_PIXELS)"
        )),
        _ => Ok(()),
    }
}

/// Width and height in points: by the resolution of a scan, else at most as large as a sheet of paper.
fn page_size((width, height): (f32, f32), (x, y): (i32, i32)) -> (f32, f32) {
    let is_scan = |dpi: f32| (MIN_SCAN_DPI..=MAX_SCAN_DPI).contains(&dpi);
    let (x, y) = (x as f32, y as f32);
    if is_scan(x) && is_scan(y) {
        return (width * 72.0 / x, height * 72.0 / y);
    }
    let (width, height) = (width * 72.0 / SCREEN_DPI, height * 72.0 / SCREEN_DPI);
    let scale = (PAGE_AREA / (width * height)).sqrt().min(1.0);
    ((width * scale).max(1.0), (height * scale).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_have_their_own_size_and_photos_that_of_a_sheet() {
        // A4 at 300 dpi.
        let (width, height) = page_size((2480.0, 3508.0), (300, 300));
        assert!((width - 595.2).abs() < 0.1 && (height - 841.9).abs() < 0.1, "{width} {height}");
        // A fax has pixels that are not square.
        let (width, height) = page_size((1728.0, 1078.0), (204, 196));
        assert!((width - 609.9).abs() < 0.1 && (height - 396.0).abs() < 0.1, "{width} {height}");
        for resolution in [(72, 72), (0, 0), (-1, 5), (1, 1), (i32::MAX, 300)] {
            let (width, height) = page_size((4000.0, 3000.0), resolution);
            assert!((width * height - PAGE_AREA).abs() < 100.0, "{resolution:?}: {width} {height}");
            assert!((width / height - 4.0 / 3.0).abs() < 0.01);
        }
        // A small picture is not enlarged.
        assert_eq!(page_size((96.0, 48.0), (0, 0)), (72.0, 36.0));
    }
}
