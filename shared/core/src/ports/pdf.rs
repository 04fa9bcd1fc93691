//! Reads documents: PDFs, and images as documents of as many pages as they have pictures.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    document::{ImageStyle, LayerSpan, PageReading},
    ids::{PageNumber, TenantId},
    secret::Secret,
};

/// Limits on documents; one that exceeds a limit is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfLimits {
    pub max_file_bytes: u64,
    pub max_pages: u32,
    /// Longest side of a page, in PDF points (1/72 inch).
    pub max_page_points: u32,
    /// Pixels of an image that is a page of a document.
    pub max_image_pixels: u64,
    /// After this a page is given up, and the document continues with the next one.
    pub page_timeout: Duration,
    /// After this the image of a page is given up; the page still has its text.
    pub render_timeout: Duration,
    /// Address space of the child process that parses: a decompression bomb ends that process only.
    pub max_memory_bytes: u64,
}

impl Default for PdfLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 512 << 20,
            max_pages: 20_000,
            // PDF's own limit (200 inches) is 14,400; a page of 10 m is 28,346.
            max_page_points: 14_400,
            // A0 at 300 dpi has 140 million.
            max_image_pixels: 150_000_000,
            page_timeout: Duration::from_secs(20),
            // A page takes 10 ms; one that takes a thousand times as long is made to be slow.
            render_timeout: Duration::from_secs(10),
            max_memory_bytes: 2 << 30,
        }
    }
}

/// A document to read. Parsers are shared fairly between tenants, so a request names its own.
#[derive(Clone, Copy)]
pub struct PdfSource<'a> {
    pub file: &'a Path,
    pub password: Option<&'a Secret>,
    pub tenant: &'a TenantId,
}

/// Which pages get an image while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RenderPages {
    None,
    /// Pages classified `HAS_GRAPHICS`.
    Graphics,
    All,
}

/// How each page of a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    pub render: RenderPages,
    pub style: ImageStyle,
}

/// Text for a page of a searchable PDF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLayer {
    pub page: PageNumber,
    /// In the order of the text.
    pub spans: Vec<LayerSpan>,
}

/// Why a document as a whole can't be processed. The text is shown to the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::EnumDiscriminants)]
#[strum_discriminants(
    name(PdfErrorCode),
    derive(strum::IntoStaticStr, strum::EnumString),
    strum(serialize_all = "snake_case"),
    doc = "A short, stable name for scripts and dashboards."
)]
pub enum PdfError {
    #[error("the file is empty (0 bytes)")]
    #[strum_discriminants(strum(serialize = "empty_file"))]
    Empty,
    #[error("this is not a PDF or an image (PNG, JPEG, TIFF, WebP): {0}")]
    #[strum_discriminants(strum(serialize = "not_a_pdf"))]
    NotAPdf(String),
    #[error("the PDF is damaged beyond repair: {0}")]
    #[strum_discriminants(strum(serialize = "corrupt_pdf"))]
    Corrupt(String),
    #[error("the image can't be read: {0}")]
    BadImage(String),
    #[error("the PDF is encrypted and no password was given")]
    PasswordNeeded,
    #[error("the PDF is encrypted and the password given does not open it")]
    PasswordWrong,
    #[error("the PDF has no pages")]
    NoPages,
    #[error(
        "the file has {bytes} bytes; the limit is {limit} (MAX_FILE_BYTES, and half of PDF_MAX_MEMORY_BYTES)"
    )]
    #[strum_discriminants(strum(serialize = "file_too_large"))]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the document has {pages} pages; the limit is {limit} (MAX_PAGES)")]
    TooManyPages { pages: u32, limit: u32 },
    #[error("a searchable PDF can't be made: {0}")]
    NotSearchable(String),
    #[error("the PDF could not be opened: the parser {0}")]
    ParserDied(String),
    /// A failure of this installation, not of the document: no child process could be started, or the
    /// file is gone.
    #[error("the PDF reader is not available: {0}")]
    #[strum_discriminants(strum(serialize = "reader_unavailable"))]
    Unavailable(String),
}

impl PdfError {
    /// A short, stable name for scripts and dashboards.
    pub fn code(&self) -> &'static str {
        PdfErrorCode::from(self).into()
    }
}

/// Reads documents, and survives any file.
#[async_trait]
pub trait Pdf: Send + Sync {
    /// Whether this process can read PDFs. Checked before a document is downloaded.
    fn is_available(&self) -> bool {
        true
    }

    /// Opens the document, checks the document-wide limits and returns the page count. `time` limits
    /// the opening, without the wait for a free parser process.
    async fn inspect(&self, source: PdfSource<'_>, time: Duration) -> Result<u32, PdfError>;

    /// Reads `pages` (ascending) and returns one reading per page, in order. A page that crashes the
    /// parser, times out or exceeds a limit is returned as `Unreadable` with its `fault`, and the
    /// other pages are not affected. `Err` means that the document can't be opened.
    async fn read(
        &self,
        source: PdfSource<'_>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError>;

    /// Makes a PDF of the document's pages, on which the text of `layers` can be found and is not seen. Pages that
    /// have sound text of their own keep it. `time` limits the work, without the wait for a parser process.
    async fn searchable(
        &self,
        _source: PdfSource<'_>,
        _layers: &[PageLayer],
        _time: Duration,
    ) -> Result<Vec<u8>, PdfError> {
        Err(PdfError::Unavailable("this process makes no PDFs".into()))
    }
}
