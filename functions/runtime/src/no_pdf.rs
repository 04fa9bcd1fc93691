//! A reader of PDFs that refuses, for the functions that need none: only intake links MuPDF.

use std::time::Duration;

use async_trait::async_trait;
use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::pdf::{Pdf, PdfError, PdfSource, ReadOptions},
};

pub struct NoPdf;

#[async_trait]
impl Pdf for NoPdf {
    fn is_available(&self) -> bool {
        false
    }

    async fn inspect(&self, _: PdfSource<'_>, _: Duration) -> Result<u32, PdfError> {
        Err(unavailable())
    }

    async fn read(
        &self,
        _: PdfSource<'_>,
        _: &[PageNumber],
        _: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        Err(unavailable())
    }
}

fn unavailable() -> PdfError {
    PdfError::Unavailable("this function can't read PDFs; intake does".into())
}
