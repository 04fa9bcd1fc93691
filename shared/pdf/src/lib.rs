//! Reads PDFs with MuPDF, in processes that a hostile file may kill without harm.
//!
//! ```text
//! IsolatedPdf ──frames──> child::run() ──> Document ──> page: text, marks, classify, render
//!  (the port)              (a process)      (MuPDF)
//! ```
//!
//! [`IsolatedPdf`] is what a program uses. [`Document`] does the same work in the calling process
//! and is for benchmarks and for files that are trusted.

pub mod child;
mod document;
mod gate;
mod isolation;
mod page;

pub use document::{Care, Document};
pub use isolation::{ChildCommand, IsolatedPdf, Losses};
