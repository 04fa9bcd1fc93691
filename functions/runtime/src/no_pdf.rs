//! A reader of PDFs that refuses, for the functions that need none: only intake links MuPDF.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::pdf::{Pdf, PdfError, ReadOptions},
    secret::Secret,
};

pub struct NoPdf;

#[async_trait]
impl Pdf for NoPdf {
    fn is_available(&self) -> bool {
        false
    }

    async fn inspect(&self, _: &Path, _: Option<&Secret>, _: Duration) -> Result<u32, PdfError> {
        Err(unavailable())
    }

    async fn read(
        &self,
        _: &Path,
        _: Option<&Secret>,
        _: &[PageNumber],
        _: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        Err(unavailable())
    }
}

fn unavailable() -> PdfError {
    PdfError::Unavailable("this function can't read PDFs; intake does".into())
}
