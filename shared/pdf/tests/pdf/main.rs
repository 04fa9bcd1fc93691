//! The reader against PDFs made for the purpose: honest ones, broken ones and hostile ones.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up should stop right there")]

mod classify;
mod hostile;
mod images;
mod isolation;
mod refusals;
mod support;
mod text;
