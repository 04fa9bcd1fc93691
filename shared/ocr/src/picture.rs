//! A page as gray pixels: decoded, shrunk, turned.

use std::io::Cursor;

use zune_jpeg::zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};

use crate::wire::Box;

/// Pages are rendered with at most 40 million pixels, and their sides are rounded up.
const MAX_PIXELS: usize = 41_000_000;

/// One byte per pixel, row by row; 255 is white.
#[derive(Clone)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Decodes a JPEG or PNG.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.starts_with(b"\x89PNG") { png(bytes) } else { jpeg(bytes) }
    }

    fn of(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, String> {
        if width.checked_mul(height) != Some(pixels.len()) {
            return Err("the image has the wrong number of pixels".into());
        }
        Ok(Self { width, height, pixels })
    }

    /// Half as wide and half as high.
    pub fn half(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let mut pixels = Vec::with_capacity(width * height);
        for rows in self.pixels.chunks_exact(2 * self.width.max(1)).take(height) {
            let (upper, lower) = rows.split_at(self.width);
            for (above, below) in upper.chunks_exact(2).zip(lower.chunks_exact(2)) {
                let sum: u16 = above.iter().chain(below).map(|pixel| u16::from(*pixel)).sum();
                pixels.push((sum / 4) as u8);
            }
        }
        Self { width, height, pixels }
    }

    /// Turned by 90 degrees clockwise, `turns` times.
    pub fn turned(&self, turns: u8) -> Self {
        let (width, height) = (self.width, self.height);
        let pixel = |x: usize, y: usize| self.pixels[y * width + x];
        match turns % 4 {
            1 => {
                let rows = (0..width).flat_map(|x| (0..height).rev().map(move |y| pixel(x, y)));
                Self { width: height, height: width, pixels: rows.collect() }
            }
            2 => Self { pixels: self.pixels.iter().rev().copied().collect(), ..*self },
            3 => {
                let rows = (0..width).rev().flat_map(|x| (0..height).map(move |y| pixel(x, y)));
                Self { width: height, height: width, pixels: rows.collect() }
            }
            _ => self.clone(),
        }
    }
}

/// Where a box of the picture turned by `turns` is in the picture of `width` and `height` as it was.
pub fn turned_back(area: Box, turns: u8, width: u32, height: u32) -> Box {
    let Box { x0, y0, x1, y1 } = area;
    let from_right = |x: u32| width.saturating_sub(x);
    let from_bottom = |y: u32| height.saturating_sub(y);
    match turns % 4 {
        1 => Box { x0: y0, y0: from_bottom(x1), x1: y1, y1: from_bottom(x0) },
        2 => Box { x0: from_right(x1), y0: from_bottom(y1), x1: from_right(x0), y1: from_bottom(y0) },
        3 => Box { x0: from_right(y1), y0: x0, x1: from_right(y0), y1: x1 },
        _ => area,
    }
}

fn png(bytes: &[u8]) -> Result<Picture, String> {
    let fault = |error: png::DecodingError| format!("PNG: {error}");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: 256 << 20 });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(fault)?;
    check_size(reader.info().width as usize, reader.info().height as usize)?;
    let mut data = vec![0; reader.output_buffer_size().ok_or("PNG: too large")?];
    let frame = reader.next_frame(&mut data).map_err(fault)?;
    data.truncate(frame.buffer_size());
    let pixels = match frame.color_type {
        png::ColorType::Grayscale => data,
        png::ColorType::GrayscaleAlpha => {
            data.chunks_exact(2).map(|pixel| over_white(pixel[0], pixel[1])).collect()
        }
        png::ColorType::Rgb => data.chunks_exact(3).map(gray).collect(),
        png::ColorType::Rgba => data.chunks_exact(4).map(|pixel| over_white(gray(pixel), pixel[3])).collect(),
        png::ColorType::Indexed => return Err("PNG: an unexpanded palette".into()),
    };
    Picture::of(frame.width as usize, frame.height as usize, pixels)
}

fn jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let fault = |error: zune_jpeg::errors::DecodeErrors| format!("JPEG: {error:?}");
    let options = DecoderOptions::new_safe().jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(fault)?;
    let (width, height) = decoder.dimensions().ok_or("JPEG: no size")?;
    check_size(width, height)?;
    Picture::of(width, height, decoder.decode().map_err(fault)?)
}

fn check_size(width: usize, height: usize) -> Result<(), String> {
    match width.checked_mul(height) {
        Some(pixels) if pixels > 0 && pixels <= MAX_PIXELS => Ok(()),
        _ => Err(format!("the image has {width} x {height} pixels; the limit is {MAX_PIXELS}")),
    }
}

fn gray(pixel: &[u8]) -> u8 {
    let [red, green, blue] = [0, 1, 2].map(|at| u32::from(pixel[at]));
    ((299 * red + 587 * green + 114 * blue) / 1000) as u8
}

fn over_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    ((value * alpha + 255 * (255 - alpha)) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        Picture { width: 3, height: 2, pixels: vec![1, 2, 3, 4, 5, 6] }
    }

    #[test]
    fn four_turns_are_none() {
        let once = picture().turned(1);
        assert_eq!((once.width, once.height, &once.pixels[..]), (2, 3, &[4, 1, 5, 2, 6, 3][..]));
        assert_eq!(once.turned(3).pixels, picture().pixels);
        assert_eq!(picture().turned(2).turned(2).pixels, picture().pixels);
        assert_eq!(once.turned(1).pixels, picture().turned(2).pixels);
    }

    #[test]
    fn a_box_returns_to_the_pixels_it_had() {
        let original = picture();
        for turns in 0..4 {
            let turned = original.turned(turns);
            for y in 0..turned.height {
                for x in 0..turned.width {
                    let found = Box { x0: x as u32, y0: y as u32, x1: x as u32 + 1, y1: y as u32 + 1 };
                    let back = turned_back(found, turns, 3, 2);
                    let pixel = original.pixels[back.y0 as usize * 3 + back.x0 as usize];
                    assert_eq!(pixel, turned.pixels[y * turned.width + x], "{turns} turns, {x} {y}");
                    assert_eq!((back.x1 - back.x0, back.y1 - back.y0), (1, 1));
                }
            }
        }
    }

    #[test]
    fn hostile_images_are_refused() {
        for bytes in [&b""[..], b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", &[0; 100]] {
            assert!(Picture::decode(bytes).is_err());
        }
    }
}
