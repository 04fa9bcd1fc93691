//! A fake PDF reader for documents that tests declare in one line: no C, no child process.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use everypage_core::{
    document::{Classification, Confidence, ImageFormat, PageBox, PageImage, PageReading, Reason},
    ids::PageNumber,
    ports::{
        clock::Clock,
        pdf::{Pdf, PdfError, PdfSource, ReadOptions, RenderPages},
    },
    secret::Secret,
};
use serde::{Deserialize, Serialize};

/// A document as a test declares it: its pages and its password.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FakeDocument {
    pub password: Option<String>,
    pub pages: Vec<FakePage>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FakePage {
    pub text: String,
    pub reason: Reason,
}

impl FakeDocument {
    /// `count` pages, all of them with graphics.
    pub fn graphics(count: u32) -> Self {
        let page = |number| FakePage { text: format!("layer of page {number}"), reason: Reason::Image };
        Self { password: None, pages: (1..=count).map(page).collect() }
    }

    /// Pages that alternate between text only and graphics.
    pub fn mixed(count: u32) -> Self {
        let mut document = Self::graphics(count);
        for page in document.pages.iter_mut().step_by(2) {
            page.reason = Reason::Text;
        }
        document
    }

    /// `count` pages without a text layer.
    pub fn scan(count: u32) -> Self {
        let page = FakePage { text: String::new(), reason: Reason::Scanned };
        Self { password: None, pages: vec![page; count as usize] }
    }

    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Reads [`FakeDocument`]s.
#[derive(Default)]
pub struct FakePdf {
    slow: Option<(Arc<dyn Clock>, Duration)>,
    slow_to_open: Option<(Arc<dyn Clock>, Duration)>,
    absent: bool,
}

impl FakePdf {
    /// A reader that needs `image` for each page that it renders.
    pub fn slow(clock: Arc<dyn Clock>, image: Duration) -> Self {
        Self { slow: Some((clock, image)), ..Self::default() }
    }

    /// A reader that needs `time` to open a document.
    pub fn slow_to_open(clock: Arc<dyn Clock>, time: Duration) -> Self {
        Self { slow_to_open: Some((clock, time)), ..Self::default() }
    }

    /// No reader, as in a Lambda function without one.
    pub fn absent() -> Self {
        Self { absent: true, ..Self::default() }
    }

    fn open(&self, file: &Path, password: Option<&Secret>) -> Result<FakeDocument, PdfError> {
        if self.absent {
            return Err(PdfError::Unavailable("this process has no PDF reader".into()));
        }
        open(file, password)
    }
}

fn open(file: &Path, password: Option<&Secret>) -> Result<FakeDocument, PdfError> {
    let bytes = std::fs::read(file).map_err(|error| PdfError::Unavailable(error.to_string()))?;
    if bytes.is_empty() {
        return Err(PdfError::Empty);
    }
    let document: FakeDocument =
        serde_json::from_slice(&bytes).map_err(|error| PdfError::NotAPdf(error.to_string()))?;
    match (&document.password, password) {
        (None, _) => {}
        (Some(_), None) => return Err(PdfError::PasswordNeeded),
        (Some(wanted), Some(given)) if wanted != given.expose() => return Err(PdfError::PasswordWrong),
        (Some(_), Some(_)) => {}
    }
    if document.pages.is_empty() {
        return Err(PdfError::NoPages);
    }
    Ok(document)
}

#[async_trait]
impl Pdf for FakePdf {
    fn is_available(&self) -> bool {
        !self.absent
    }

    async fn inspect(&self, source: PdfSource<'_>, _time: Duration) -> Result<u32, PdfError> {
        if let Some((clock, time)) = &self.slow_to_open {
            clock.sleep(*time).await;
        }
        Ok(self.open(source.file, source.password)?.pages.len() as u32)
    }

    async fn read(
        &self,
        source: PdfSource<'_>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let document = self.open(source.file, source.password)?;
        if let (Some((clock, image)), RenderPages::All | RenderPages::Graphics) = (&self.slow, options.render)
        {
            clock.sleep(*image * pages.len() as u32).await;
        }
        Ok(pages
            .iter()
            .filter_map(|number| {
                let page = document.pages.get(number.get() as usize - 1)?;
                let wanted = match options.render {
                    RenderPages::None => false,
                    RenderPages::Graphics => page.reason.classification() == Classification::HasGraphics,
                    RenderPages::All => true,
                };
                let image = PageImage {
                    format: ImageFormat::Jpeg,
                    width_px: 10,
                    height_px: 10,
                    bytes: vec![1, 2, 3],
                };
                Some(PageReading {
                    number: *number,
                    text: page.text.clone(),
                    page: PageBox::default(),
                    blocks: vec![],
                    images: vec![],
                    confidence: Confidence::default(),
                    doubts: vec![],
                    without_images: None,
                    reason: page.reason,
                    image: (wanted && page.reason != Reason::Unreadable).then_some(image),
                    fault: None,
                })
            })
            .collect())
    }
}
