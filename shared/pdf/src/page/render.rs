//! Renders a page's image.

use everypage_core::document::{ImageColor, ImageFormat, ImageStyle, PageImage};
use jpeg_encoder::{ColorType, Encoder};
use mupdf::{Colorspace, DisplayList, Matrix, Pixmap};

use super::geometry::Area;
use crate::document::message;

/// 40 million pixels are an A4 page at 600 dpi or A0 at 160, and 120 MB while they are encoded.
/// No model reads more; a larger image is scaled down instead of failing.
const MAX_PIXELS: f64 = 40e6;
/// A side of a JPEG has at most 65,535 pixels; well below that, for decoders with a limit of 32 K.
const MAX_SIDE: f64 = 30_000.0;

pub(crate) fn render(list: &DisplayList, page: &Area, style: &ImageStyle) -> Result<PageImage, String> {
    let scale = scale(page, style.dpi);
    let space = match style.color {
        ImageColor::Rgb => Colorspace::device_rgb(),
        ImageColor::Gray => Colorspace::device_gray(),
    };
    let pixmap = list.to_pixmap(&Matrix::new_scale(scale, scale), &space, false).map_err(message)?;
    let (width, height) = (pixmap.width(), pixmap.height());
    let row = width as usize * usize::from(pixmap.n());
    if width == 0 || height == 0 || usize::try_from(pixmap.stride()) != Ok(row) {
        return Err("the page has no area".into());
    }
    let bytes = match style.format {
        ImageFormat::Jpeg => jpeg(&pixmap, style),
        ImageFormat::Png => png(&pixmap, style),
    }?;
    Ok(PageImage { format: style.format, width_px: width, height_px: height, bytes })
}

/// Pixels per point, lowered where the image would exceed the limits.
fn scale(page: &Area, dpi: u32) -> f32 {
    let requested = f64::from(dpi.max(1)) / 72.0;
    let (width, height) = (f64::from(page.width()).max(1.0), f64::from(page.height()).max(1.0));
    let by_pixels = (MAX_PIXELS / (width * height)).sqrt();
    let by_side = MAX_SIDE / width.max(height);
    requested.min(by_pixels).min(by_side) as f32
}

fn jpeg(pixmap: &Pixmap, style: &ImageStyle) -> Result<Vec<u8>, String> {
    let too_large = |_| "the image is too large for JPEG".to_owned();
    let width = u16::try_from(pixmap.width()).map_err(too_large)?;
    let height = u16::try_from(pixmap.height()).map_err(too_large)?;
    let color = match style.color {
        ImageColor::Rgb => ColorType::Rgb,
        ImageColor::Gray => ColorType::Luma,
    };
    // A page at quality 70 takes about a tenth of a byte per pixel.
    let mut bytes = Vec::with_capacity(usize::from(width) * usize::from(height) / 8);
    Encoder::new(&mut bytes, style.jpeg_quality.clamp(1, 100))
        .encode(pixmap.samples(), width, height, color)
        .map_err(|error| format!("JPEG: {error}"))?;
    Ok(bytes)
}

fn png(pixmap: &Pixmap, style: &ImageStyle) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(match style.color {
        ImageColor::Rgb => png::ColorType::Rgb,
        ImageColor::Gray => png::ColorType::Grayscale,
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let fault = |error: png::EncodingError| format!("PNG: {error}");
    let mut writer = encoder.write_header().map_err(fault)?;
    writer.write_image_data(pixmap.samples()).map_err(fault)?;
    writer.finish().map_err(fault)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_over_the_limits_are_scaled_down() {
        let a4 = Area::new(0.0, 0.0, 595.0, 842.0);
        assert_eq!(scale(&a4, 72), 1.0);
        assert_eq!(scale(&a4, 600), 600.0 / 72.0);
        let poster = Area::new(0.0, 0.0, 14_400.0, 14_400.0);
        let side = 14_400.0 * f64::from(scale(&poster, 100));
        assert!(side * side <= 40.01e6 && side * side > 39.0e6);
        let strip = Area::new(0.0, 0.0, 10.0, 14_400.0);
        assert!(14_400.0 * scale(&strip, 600) <= 30_001.0);
    }
}
