//! The port [`Pdf`] over child processes.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::pdf::{PageLayer, Pdf, PdfError, PdfLimits, PdfSource, ReadOptions},
};
use futures::stream::{FuturesUnordered, StreamExt};

use super::{
    command::ChildCommand,
    failures::ChildFailures,
    lane::Lane,
    pool::Pool,
    reader::{OpenSource, Reader},
};
use crate::precheck;

/// Repairing 512 MB without a cross-reference table takes seconds; a minute means a hostile file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Pages of one request: few enough to distribute a document evenly over the cores, many enough that
/// neighbouring pages share fonts and images.
const BATCH_SIZE: usize = 8;

/// Reads PDFs in child processes. Cheap to clone; clones share the children.
#[derive(Clone)]
pub struct IsolatedPdf {
    command: ChildCommand,
    limits: PdfLimits,
    open_timeout: Duration,
    children: usize,
    pool: Arc<Pool>,
}

impl IsolatedPdf {
    /// Uses as many children as there are cores; none is started before it is needed.
    pub fn new(command: ChildCommand, limits: PdfLimits) -> Self {
        let children = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { command, limits, open_timeout: OPEN_TIMEOUT, children, pool: Pool::new(children) }
    }

    /// Limits the number of children, over all documents.
    pub fn with_children(mut self, children: NonZeroUsize) -> Self {
        self.children = children.get();
        self.pool = Pool::new(self.children);
        self
    }

    pub fn with_open_timeout(mut self, time: Duration) -> Self {
        self.open_timeout = time;
        self
    }

    /// Counts of failed children so far, including those whose page another child then read.
    pub fn child_failures(&self) -> ChildFailures {
        self.pool.failures.read()
    }

    async fn check<'a>(&'a self, document: PdfSource<'a>) -> Result<OpenSource<'a>, PdfError> {
        let (path, limits) = (document.file.to_owned(), self.limits);
        let identity = tokio::task::spawn_blocking(move || precheck::check(&path, &limits))
            .await
            .map_err(|error| PdfError::Unavailable(error.to_string()))??;
        Ok(OpenSource {
            pool: &self.pool,
            command: &self.command,
            limits: &self.limits,
            open_timeout: self.open_timeout,
            document,
            key: self.pool.key(identity, document.password),
        })
    }
}

#[async_trait]
impl Pdf for IsolatedPdf {
    async fn inspect(&self, document: PdfSource<'_>, time: Duration) -> Result<u32, PdfError> {
        let source = OpenSource { open_timeout: time, ..self.check(document).await? };
        let mut reader = Reader::start(&source, Lane::Text).await;
        let pages = reader.count().await?;
        reader.finish();
        Ok(pages)
    }

    /// Uses as many children as are free. Dropping the future kills those that are reading a page.
    async fn read(
        &self,
        document: PdfSource<'_>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let source = self.check(document).await?;
        let batches: Vec<&[PageNumber]> = pages.chunks(BATCH_SIZE).collect();
        let next = AtomicUsize::new(0);
        let children = 0..self.children.min(batches.len());
        let mut tasks: FuturesUnordered<_> =
            children.map(|_| read_batches(&source, &batches, &next, options)).collect();
        let mut done: Vec<Vec<PageReading>> = vec![Vec::new(); batches.len()];
        let mut missing = batches.len();
        // Tasks that still wait for a slot when all batches are read are dropped.
        while missing > 0 {
            let Some(results) = tasks.next().await else {
                return Err(PdfError::Unavailable("the parsers stopped early".into()));
            };
            for (index, readings) in results? {
                done[index] = readings;
                missing -= 1;
            }
        }
        Ok(done.into_iter().flatten().collect())
    }

    async fn searchable(
        &self,
        document: PdfSource<'_>,
        layers: &[PageLayer],
        time: Duration,
    ) -> Result<Vec<u8>, PdfError> {
        let source = self.check(document).await?;
        Reader::start(&source, Lane::Images).await.searchable(layers, time).await
    }
}

/// Reads batches, each the next unread one, until there are no more. Each waits for its own slot, so that a long
/// document lets others have their turn.
async fn read_batches(
    source: &OpenSource<'_>,
    batches: &[&[PageNumber]],
    next: &AtomicUsize,
    options: &ReadOptions,
) -> Result<Vec<(usize, Vec<PageReading>)>, PdfError> {
    let mut done = Vec::new();
    let mut careful = false;
    while next.load(Ordering::Relaxed) < batches.len() {
        let mut reader = Reader::start(source, Lane::of(options)).await;
        let index = next.fetch_add(1, Ordering::Relaxed);
        if let Some(batch) = batches.get(index) {
            reader.careful = careful;
            done.push((index, reader.read(batch, options).await?));
            careful = reader.careful;
        }
        reader.finish();
    }
    Ok(done)
}
