//! Reads PDFs and images with MuPDF in child processes, so that a hostile file can crash only its own child.
//!
//! ```text
//! IsolatedPdf ──frames──> child::run() ──> Document ──> page: content, graphics, render
//!  (the port)              (a process)      (MuPDF)        layout: blocks; page: classify
//! ```
//!
//! Programs use [`IsolatedPdf`]. [`Document`] does the same work in the calling process and is for
//! benchmarks and trusted files.

pub mod child;
mod document;
mod image;
mod isolation;
mod layout;
mod ocr;
mod page;
mod precheck;
mod searchable;

pub use document::{Document, ReadMode};
pub use everypage_confine::{Support as Confinement, kernel_support as confinement, protect_memory};
pub use isolation::{ChildCommand, ChildFailures, IsolatedPdf};
pub use ocr::{OcrProgram, TesseractOcr};
