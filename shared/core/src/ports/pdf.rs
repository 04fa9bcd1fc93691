//! Reading a PDF.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    document::{ImageStyle, PageReading},
    ids::PageNumber,
    secret::Secret,
};

/// What a document may ask of us before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfLimits {
    pub max_file_bytes: u64,
    pub max_pages: u32,
    /// Longest side of a page, in PDF points (1/72 inch).
    pub max_page_points: u32,
    /// After this a page is given up and the document goes on.
    pub page_timeout: Duration,
    /// Address space of the process that parses; a bomb dies there and nowhere else.
    pub max_memory_bytes: u64,
}

impl Default for PdfLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 512 << 20,
            max_pages: 20_000,
            // PDF's own limit (200 inches) is 14,400; a page of 10 m is 28,346.
            max_page_points: 14_400,
            page_timeout: Duration::from_secs(20),
            max_memory_bytes: 2 << 30,
        }
    }
}

/// Which pages get an image while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RenderPages {
    None,
    /// Those classified `HAS_GRAPHICS`.
    Graphics,
    All,
}

/// What to do with each page of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    pub render: RenderPages,
    pub style: ImageStyle,
}

/// Why a document as a whole can't be processed. The wording is shown to the person who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PdfError {
    #[error("the file is empty (0 bytes)")]
    Empty,
    #[error("this is not a PDF: {0}")]
    NotAPdf(String),
    #[error("the PDF is damaged beyond repair: {0}")]
    Corrupt(String),
    #[error("the PDF is encrypted and no password was given")]
    PasswordNeeded,
    #[error("the PDF is encrypted and the password given does not open it")]
    PasswordWrong,
    #[error("the PDF has no pages")]
    NoPages,
    #[error("the file has {bytes} bytes; the limit is {limit} (MAX_FILE_BYTES)")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the PDF has {pages} pages; the limit is {limit} (MAX_PAGES)")]
    TooManyPages { pages: u32, limit: u32 },
    #[error("the PDF could not be opened: the parser {0}")]
    ParserDied(String),
    /// Our side is at fault (no child process could be started, file gone); the document may be fine.
    #[error("the PDF reader is not available: {0}")]
    Unavailable(String),
}

impl PdfError {
    /// A short, stable name for scripts and dashboards.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty_file",
            Self::NotAPdf(_) => "not_a_pdf",
            Self::Corrupt(_) => "corrupt_pdf",
            Self::PasswordNeeded => "password_needed",
            Self::PasswordWrong => "password_wrong",
            Self::NoPages => "no_pages",
            Self::TooLarge { .. } => "file_too_large",
            Self::TooManyPages { .. } => "too_many_pages",
            Self::ParserDied(_) => "parser_died",
            Self::Unavailable(_) => "reader_unavailable",
        }
    }
}

/// A reader of PDF files that no file can take down.
#[async_trait]
pub trait Pdf: Send + Sync {
    /// False where documents are read elsewhere: nobody need fetch one to find that out.
    fn is_here(&self) -> bool {
        true
    }

    /// Opens the document, checks the document-wide limits and counts its pages. Opening may take
    /// `time`; waiting for a free reader is not counted.
    async fn inspect(&self, file: &Path, password: Option<&Secret>, time: Duration) -> Result<u32, PdfError>;

    /// Reads `pages` (ascending). Answers one reading per page asked for, in order: a page that
    /// crashes the parser, runs over its time or breaks a limit comes back `Unreadable` with its
    /// `fault`, and the others are not affected. `Err` means that the document itself won't open.
    async fn read(
        &self,
        file: &Path,
        password: Option<&Secret>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError>;
}
