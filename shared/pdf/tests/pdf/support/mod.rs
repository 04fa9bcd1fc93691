//! Makes small PDFs, reads them, and looks after the children of the test's process.

pub mod children;

pub use everypage_hostile::{builder, pages as hostile};

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use everypage_core::{
    domain::{
        document::{ImageStyle, PageReading},
        ids::PageNumber,
    },
    ports::pdf::{PdfLimits, ReadOptions, RenderPages},
};
use everypage_pdf::{Care, ChildCommand, Document, IsolatedPdf};
use tempfile::TempDir;

/// Nothing here takes a tenth of it to open.
pub const OPENING: Duration = Duration::from_secs(10);

/// A PDF on disk, gone with the test.
pub struct Saved {
    pub path: PathBuf,
    _dir: TempDir,
}

pub fn save(bytes: impl AsRef<[u8]>) -> Saved {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("document.pdf");
    std::fs::write(&path, bytes).unwrap();
    Saved { path, _dir: dir }
}

pub fn limits() -> PdfLimits {
    PdfLimits { page_timeout: Duration::from_secs(10), max_memory_bytes: 1 << 30, ..PdfLimits::default() }
}

pub fn reader(limits: PdfLimits, children: usize) -> IsolatedPdf {
    IsolatedPdf::new(ChildCommand::new(env!("CARGO_BIN_EXE_everypage-pdf-child")), limits)
        .with_children(NonZeroUsize::new(children).unwrap())
        .with_open_timeout(Duration::from_secs(10))
}

pub fn pages(numbers: impl IntoIterator<Item = u32>) -> Vec<PageNumber> {
    numbers.into_iter().map(|number| PageNumber::new(number).unwrap()).collect()
}

pub fn no_images() -> ReadOptions {
    ReadOptions { render: RenderPages::None, style: ImageStyle::default() }
}

pub fn open(path: &Path) -> Document {
    Document::open(path, None, &limits()).unwrap()
}

/// The first page, read in this process.
pub fn first_page(bytes: impl AsRef<[u8]>, care: Care) -> PageReading {
    let saved = save(bytes);
    open(&saved.path).read_page(PageNumber::new(1).unwrap(), &no_images(), care)
}

pub fn text_of(bytes: impl AsRef<[u8]>) -> String {
    let reading = first_page(bytes, Care::Usual);
    assert_eq!(reading.fault, None);
    reading.text
}

/// Waits in a test, where real processes take real time.
pub async fn pause(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
