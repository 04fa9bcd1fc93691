//! OCR: pages without a sound text layer, recognized by Tesseract in the helper program `everypage-ocr`.
//!
//! ```text
//! TesseractOcr ──image──> everypage-ocr (one process per page) ──words──> words: lines of glyphs ──> layout
//! ```
//!
//! The program is built apart from this workspace (`shared/ocr` says why).

mod engine;
mod process;
mod program;
mod wire;
mod words;

pub use engine::TesseractOcr;
pub use program::OcrProgram;
