//! The messages between this process and `everypage-ocr`; `shared/ocr/src/wire.rs` has the other end.

use serde::{Deserialize, Serialize};

#[derive(Serialize)]
pub(super) struct Request {
    pub dpi: u32,
    pub milliseconds: u64,
}

#[derive(Deserialize)]
pub(super) enum Reply {
    NoLanguages(String),
    Words,
    Failed(String),
}

#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub width: u32,
    pub height: u32,
    pub words: Vec<Word>,
    /// Long straight lines; an older program sends none.
    #[serde(default)]
    pub lines: Vec<PixelBox>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Word {
    pub text: String,
    pub area: PixelBox,
    pub confidence: f32,
    pub points: u32,
    /// How often the page must be turned by 90 degrees clockwise to have the word upright.
    pub turns: u8,
    pub line: u32,
}

/// In pixels from the top left corner.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct PixelBox {
    pub x0: u32,
    pub y0: u32,
    pub x1: u32,
    pub y1: u32,
}
