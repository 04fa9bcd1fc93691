//! Creates small PDFs, reads them, and observes the test's child processes.

pub mod children;

pub use everypage_hostile::{builder, pages as hostile};

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use everypage_core::{
    document::{ImageStyle, PageReading},
    ids::{PageNumber, TenantId},
    ports::pdf::{PdfLimits, PdfSource, ReadOptions, RenderPages},
};
use everypage_pdf::{ChildCommand, Document, IsolatedPdf, ReadMode};
use tempfile::TempDir;

/// No file of these tests takes a tenth of it to open.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A PDF on disk, removed on drop.
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

/// The document of one tenant, without a password.
pub fn of(file: &Path) -> PdfSource<'_> {
    static TENANT: LazyLock<TenantId> = LazyLock::new(|| TenantId::new("acme"));
    PdfSource { file, password: None, tenant: &TENANT }
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

/// Reads the first page in this process.
pub fn first_page(bytes: impl AsRef<[u8]>, mode: ReadMode) -> PageReading {
    let saved = save(bytes);
    open(&saved.path).read_page(PageNumber::new(1).unwrap(), &no_images(), mode)
}

pub fn text_of(bytes: impl AsRef<[u8]>) -> String {
    let reading = first_page(bytes, ReadMode::Normal);
    assert_eq!(reading.fault, None);
    reading.text
}

/// Waits in real time, for child processes.
pub async fn pause(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
