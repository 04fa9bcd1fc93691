//! A document and its pages, as they are known before any AI sees them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::PageNumber;

mod block;
mod html_table;
mod kind;
mod markdown;
mod placement;
mod structure;
mod word;

pub use block::{Block, BlockKind, BlockStyle, Cell, PageBox, Table, plain_text};
pub use html_table::with_html_tables;
pub use kind::DocumentKind;
pub use markdown::{TableStyle, markdown};
pub use placement::{LayerSpan, place};
pub use structure::{Findings, PageBlocks};
pub use word::PageWord;

/// Whether the text layer is enough to read a page, or a vision model should see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Classification {
    TextOnly,
    HasGraphics,
}

/// Why a page got its [`Classification`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ClassificationReason)]
pub enum Reason {
    /// A sound text layer and nothing drawn but rules, table lines, underlines or a small logo.
    Text,
    /// The page is empty: there is nothing to send.
    Blank,
    /// One or more images larger than a logo.
    Image,
    /// A figure drawn with vectors.
    VectorFigure,
    /// An image covers the page: a scan, with or without an OCR layer.
    Scanned,
    /// Something is painted but no text can be read.
    NoTextLayer,
    /// The text layer is there but is not language (broken encodings, private-use glyphs).
    GarbageText,
    /// Equations that are no line of text: fractions, limits, large brackets.
    Equation,
    /// A table whose columns could not be found.
    Table,
    /// A form whose labels and fields could not be brought together.
    Form,
    /// The parser failed on this page: it crashed, ran out of time or memory, or rejected it.
    Unreadable,
}

impl Reason {
    pub fn classification(self) -> Classification {
        match self {
            Self::Text | Self::Blank => Classification::TextOnly,
            Self::Image
            | Self::VectorFigure
            | Self::Scanned
            | Self::NoTextLayer
            | Self::GarbageText
            | Self::Equation
            | Self::Table
            | Self::Form
            | Self::Unreadable => Classification::HasGraphics,
        }
    }
}

impl Reason {
    /// In words that continue "12 pages …".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Text => "of text",
            Self::Blank => "without content",
            Self::Image => "with an image",
            Self::VectorFigure => "with a figure",
            Self::Scanned => "scanned",
            Self::NoTextLayer => "without a text layer",
            Self::GarbageText => "with an unusable text layer",
            Self::Equation => "with equations",
            Self::Table => "with a table that could not be rebuilt",
            Self::Form => "with a form that could not be rebuilt",
            Self::Unreadable => "that can't be parsed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    Jpeg,
    Png,
}

impl ImageFormat {
    pub fn mime(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageColor {
    Rgb,
    Gray,
}

/// How a page is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageStyle {
    pub dpi: u32,
    pub color: ImageColor,
    pub format: ImageFormat,
    /// 1 to 100; JPEG only.
    pub jpeg_quality: u8,
}

impl Default for ImageStyle {
    fn default() -> Self {
        Self { dpi: 100, color: ImageColor::Rgb, format: ImageFormat::Jpeg, jpeg_quality: 70 }
    }
}

/// A page rendered for a vision model, in memory.
#[derive(Clone, PartialEq, Eq)]
pub struct PageImage {
    pub format: ImageFormat,
    pub width_px: u32,
    pub height_px: u32,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for PageImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PageImage({} {}x{}, {} bytes)",
            self.format.mime(),
            self.width_px,
            self.height_px,
            self.bytes.len()
        )
    }
}

/// More images of a page are not listed.
pub const MAX_IMAGES: usize = 16;

/// How sure our own reading of a page is, in hundredths: 100 is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = f64, minimum = 0, maximum = 1, description = "A share from 0 to 1; 1 is certain.")]
pub struct Confidence(u8);

impl Confidence {
    /// `share` is between 0 and 1.
    pub fn new(share: f32) -> Self {
        Self((share.clamp(0.0, 1.0) * 100.0).round() as u8)
    }

    pub fn get(self) -> f32 {
        f32::from(self.0) / 100.0
    }
}

/// Pages that were stored before there was a confidence were text that MuPDF read.
impl Default for Confidence {
    fn default() -> Self {
        Self(90)
    }
}

impl Serialize for Confidence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 100.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(f32::deserialize(deserializer)?))
    }
}

/// A reason why our own reading of a page is less sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The text comes from the scan's own text layer.
    Scan,
    /// Pictures, which our text does not describe, cover part of the page.
    Picture,
    /// A table without lines: its columns are known by their alignment only.
    BorderlessTable,
    /// Some characters have no meaning in their font.
    BrokenCharacters,
    /// An equation that is no line of text: fractions, limits, large brackets.
    Equation,
    /// A table whose columns could not be found.
    Table,
    /// A form whose labels and fields could not be brought together.
    Form,
}

/// What a page would be without its images: what it is, if they turn out to be on most pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithoutImages {
    pub reason: Reason,
    pub confidence: Confidence,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// The parser's findings on one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReading {
    pub number: PageNumber,
    /// The text in reading order; empty when there is none.
    pub text: String,
    /// The page's own box; empty if it could not be read.
    pub page: PageBox,
    /// The blocks that the text is made of, page headers and footers included.
    pub blocks: Vec<Block>,
    /// Where images are; at most [`MAX_IMAGES`].
    pub images: Vec<PageBox>,
    pub reason: Reason,
    pub confidence: Confidence,
    /// What lowers the confidence.
    pub doubts: Vec<Doubt>,
    /// Present if images are the reason, and text that they do not cover is on the page too.
    pub without_images: Option<WithoutImages>,
    /// Present if an image was requested and could be rendered.
    pub image: Option<PageImage>,
    /// Why the page could not be read or rendered, as shown to people.
    pub fault: Option<String>,
}
