//! Recognizes the text of page images.

use std::time::Duration;

use async_trait::async_trait;

use crate::document::{Block, Confidence, PageBox, PageImage, PageWord};

/// A page to recognize.
#[derive(Clone, Copy, Debug)]
pub struct OcrRequest<'a> {
    pub image: &'a PageImage,
    /// The page that the image shows, whole: blocks are placed on it.
    pub page: PageBox,
    /// Names of the engine's language data, such as `eng`.
    pub languages: &'a [String],
    pub priority: OcrPriority,
    /// After this the page is given up. What was recognized by then may be the answer.
    pub time: Duration,
}

/// The urgency of recognizing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcrPriority {
    /// No result waits for it yet: a model may still read the page.
    Ahead,
    /// The page's result waits for it; less than text is read for other documents.
    Needed,
}

/// The recognized text of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OcrReading {
    /// In reading order, on the page as it is in the file, whichever way it lies.
    pub blocks: Vec<Block>,
    /// What the blocks are made of, in their order.
    pub words: Vec<PageWord>,
    /// How sure the engine is of its words.
    pub confidence: Confidence,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OcrError {
    /// Nothing can be recognized in this installation: the engine or its language data is missing.
    #[error("OCR is not available: {0}")]
    Unavailable(String),
    /// This page can't be recognized: it crashed the engine, or took too long.
    #[error("the page could not be recognized: {0}")]
    Page(String),
}

/// Recognizes text, at a priority below the rest of the program, and survives any image.
#[async_trait]
pub trait Ocr: Send + Sync {
    /// Whether pages can be recognized in these languages; the error says what is missing.
    async fn check(&self, languages: &[String]) -> Result<(), OcrError>;

    /// How many pages are worth requesting at once.
    fn parallel_pages(&self) -> usize;

    /// Recognizes a page. Dropping the future ends the work on it.
    async fn recognize(&self, request: OcrRequest<'_>) -> Result<OcrReading, OcrError>;
}

/// No OCR, as in a function that never needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOcr;

#[async_trait]
impl Ocr for NoOcr {
    async fn check(&self, _languages: &[String]) -> Result<(), OcrError> {
        Err(OcrError::Unavailable("this process has no OCR".into()))
    }

    fn parallel_pages(&self) -> usize {
        1
    }

    async fn recognize(&self, request: OcrRequest<'_>) -> Result<OcrReading, OcrError> {
        self.check(request.languages).await.map(|()| OcrReading::default())
    }
}
