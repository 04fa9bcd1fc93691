//! The size of a request's image, and the shapes that rules match.

use std::{fmt, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::GrammarError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ImageSize {
    pub width: u32,
    pub height: u32,
}

/// The ratio of width to height at any resolution; written `3x4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shape {
    width: u32,
    height: u32,
}

/// Programs that scale a page round its sides to whole pixels in different ways.
const TOLERANCE: f64 = 0.005;

impl Shape {
    pub fn fits(self, image: ImageSize) -> bool {
        let is = f64::from(image.width) * f64::from(self.height);
        let should_be = f64::from(image.height) * f64::from(self.width);
        (is - should_be).abs() <= TOLERANCE * should_be
    }
}

impl FromStr for Shape {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let side = |text: &str| text.trim().parse().ok().filter(|side| *side > 0);
        let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) = sides.ok_or_else(|| GrammarError::new(text, "is not a shape, such as 3x4"))?;
        Ok(Self { width, height })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl TryFrom<String> for Shape {
    type Error = GrammarError;

    fn try_from(text: String) -> Result<Self, GrammarError> {
        text.parse()
    }
}

impl From<Shape> for String {
    fn from(shape: Shape) -> Self {
        shape.to_string()
    }
}

impl ImageSize {
    /// Reads the size from base64 or a data URL; `None` if that is neither a PNG nor a JPEG image.
    pub(super) fn of_base64(encoded: &str) -> Option<Self> {
        let encoded = encoded.split_once("base64,").map_or(encoded, |(_, data)| data);
        let image = BASE64_STANDARD.decode(encoded.trim()).ok()?;
        png(&image).or_else(|| jpeg(&image))
    }
}

fn png(image: &[u8]) -> Option<ImageSize> {
    let header = image.strip_prefix(b"\x89PNG\r\n\x1a\n")?.get(4..16)?.strip_prefix(b"IHDR")?;
    let (width, height) = header.split_at(4);
    Some(ImageSize {
        width: u32::from_be_bytes(width.try_into().ok()?),
        height: u32::from_be_bytes(height.try_into().ok()?),
    })
}

/// Reads the first frame's header and skips the segments before it.
fn jpeg(image: &[u8]) -> Option<ImageSize> {
    let mut rest = image.strip_prefix(b"\xff\xd8")?;
    loop {
        let (marker, after) = rest.split_at_checked(2)?;
        let length = usize::from(u16::from_be_bytes(after.first_chunk().copied()?));
        match marker {
            // C4, C8 and CC are tables, not frames.
            [0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf] => {
                let [_, _, _, h1, h0, w1, w0] = after.first_chunk::<7>().copied()?;
                let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
                return Some(ImageSize { width: side(w1, w0), height: side(h1, h0) });
            }
            [0xff, _] => rest = after.get(length..).filter(|_| length > 0)?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x53\0\0\x03\x4a\x08\x02\0\0\0";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xc4\0\x03\0\xff\xc0\0\x11\x08\x03\x4a\x02\x53\x03\x01";

    #[test]
    fn both_formats_are_measured_in_base64_and_in_data_urls() {
        for image in [PNG, JPEG] {
            let data = BASE64_STANDARD.encode(image);
            for text in [format!("data:image/x;base64,{data}"), data] {
                assert_eq!(
                    ImageSize::of_base64(&text),
                    Some(ImageSize { width: 595, height: 842 }),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn truncated_images_and_other_data_have_no_size() {
        for image in [PNG, JPEG] {
            for end in 0..20 {
                assert_eq!(ImageSize::of_base64(&BASE64_STANDARD.encode(&image[..end])), None, "{end}");
            }
        }
        assert_eq!(ImageSize::of_base64("not base64"), None);
        assert_eq!(jpeg(b"\xff\xd8\xff\xe0\0\0\xff\xe0\0\0"), None);
    }

    #[test]
    fn a_shape_matches_at_any_resolution() {
        let shape: Shape = "595x842".parse().unwrap();
        for (width, height, fits) in
            [(595, 842, true), (827, 1170, true), (910, 1288, true), (607, 842, false), (842, 595, false)]
        {
            assert_eq!(shape.fits(ImageSize { width, height }), fits, "{width}x{height}");
        }
    }
}
