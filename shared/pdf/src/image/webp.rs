//! WebP, decoded to pixels.

use std::io::Cursor;

use image_webp::WebPDecoder;
use mupdf::{Colorspace, Image, Pixmap};

use super::check_pixels;
use crate::document::message;

/// Decodes a still picture, or the first one of an animation, on white. Returns its EXIF data too.
pub(super) fn decode(bytes: &[u8], max_pixels: u64) -> Result<(Image, Option<Vec<u8>>), String> {
    let broken = |error: image_webp::DecodingError| format!("WebP: {error}");
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(broken)?;
    let (width, height) = decoder.dimensions();
    check_pixels(width, height, max_pixels)?;
    // Buffers of its own, in addition to the pixels.
    decoder.set_memory_limit(usize::try_from(max_pixels.saturating_mul(4)).unwrap_or(usize::MAX));
    // Without its EXIF data the picture may lie on its side, but it can be read.
    let exif = decoder.exif_metadata().ok().flatten();
    let size = decoder.output_buffer_size().ok_or("WebP: it is too large")?;
    let mut pixels = vec![0; size];
    if decoder.is_animated() {
        decoder.read_frame(&mut pixels).map_err(broken)?;
    } else {
        decoder.read_image(&mut pixels).map_err(broken)?;
    }
    let side = |side: u32| i32::try_from(side).map_err(|_| "WebP: it is too large".to_owned());
    let mut pixmap = Pixmap::new_with_w_h(&Colorspace::device_rgb(), side(width)?, side(height)?, false)
        .map_err(message)?;
    let samples = pixmap.samples_mut();
    match decoder.has_alpha() {
        false if samples.len() == pixels.len() => samples.copy_from_slice(&pixels),
        true if samples.len() / 3 == pixels.len() / 4 => {
            for (to, from) in samples.chunks_exact_mut(3).zip(pixels.chunks_exact(4)) {
                let alpha = u16::from(from[3]);
                for (to, from) in to.iter_mut().zip(from) {
                    let on_white = (u16::from(*from) * alpha + 255 * (255 - alpha) + 127) / 255;
                    *to = u8::try_from(on_white).unwrap_or(u8::MAX);
                }
            }
        }
        _ => return Err("WebP: its size is wrong".into()),
    }
    Ok((Image::from_pixmap(&pixmap).map_err(message)?, exif))
}
