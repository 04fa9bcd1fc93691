//! Reads PDFs built for these tests: valid, broken and hostile ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classify;
mod confinement;
mod fairness;
mod hostile;
mod images;
mod isolation;
mod ocr;
mod pictures;
mod refusals;
mod searchable;
mod support;
mod text;
