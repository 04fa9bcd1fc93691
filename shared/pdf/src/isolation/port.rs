//! The port [`Pdf`], served by processes of their own.

use std::{
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    domain::{document::PageReading, ids::PageNumber, secret::Secret},
    ports::pdf::{Pdf, PdfError, PdfLimits, ReadOptions},
};
use futures::stream::{FuturesUnordered, StreamExt};

use super::{
    command::ChildCommand,
    losses::Losses,
    pool::Pool,
    reader::{Reader, Source},
};
use crate::gate;

/// Repairing 512 MB without a table of contents takes seconds; a minute is a trap.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Pages that a process takes at a time: few enough to share a document evenly between cores, many
/// enough that neighbours share their fonts and images.
const BATCH: usize = 8;

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
    /// As many children as there are cores; none is started before it is needed.
    pub fn new(command: ChildCommand, limits: PdfLimits) -> Self {
        let children = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { command, limits, open_timeout: OPEN_TIMEOUT, children, pool: Pool::new(children) }
    }

    /// At most so many children at once, over all documents.
    pub fn with_children(mut self, children: NonZeroUsize) -> Self {
        self.children = children.get();
        self.pool = Pool::new(self.children);
        self
    }

    pub fn with_open_timeout(mut self, time: Duration) -> Self {
        self.open_timeout = time;
        self
    }

    /// How children were lost so far, those included whose page was then read by another.
    pub fn losses(&self) -> Losses {
        self.pool.losses.read()
    }

    async fn source<'a>(
        &'a self,
        file: &'a Path,
        password: Option<&'a Secret>,
    ) -> Result<Source<'a>, PdfError> {
        let (path, limits) = (file.to_owned(), self.limits);
        let identity = tokio::task::spawn_blocking(move || gate::check(&path, &limits))
            .await
            .map_err(|error| PdfError::Unavailable(error.to_string()))??;
        Ok(Source {
            pool: &self.pool,
            command: &self.command,
            limits: &self.limits,
            open_timeout: self.open_timeout,
            file,
            password,
            key: self.pool.key(identity, password),
        })
    }
}

#[async_trait]
impl Pdf for IsolatedPdf {
    async fn inspect(&self, file: &Path, password: Option<&Secret>, time: Duration) -> Result<u32, PdfError> {
        let source = Source { open_timeout: time, ..self.source(file, password).await? };
        let mut reader = Reader::start(&source).await?;
        let pages = reader.count().await?;
        reader.finish();
        Ok(pages)
    }

    /// Uses as many children as are free. Cancelled, it kills those in the middle of a page.
    async fn read(
        &self,
        file: &Path,
        password: Option<&Secret>,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let source = self.source(file, password).await?;
        let batches: Vec<&[PageNumber]> = pages.chunks(BATCH).collect();
        let next = AtomicUsize::new(0);
        let mut workers: FuturesUnordered<_> =
            (0..self.children.min(batches.len())).map(|_| work(&source, &batches, &next, options)).collect();
        let mut done: Vec<Vec<PageReading>> = vec![Vec::new(); batches.len()];
        let mut missing = batches.len();
        // Once all is there, those still waiting for a slot need not be waited for.
        while missing > 0 {
            let Some(results) = workers.next().await else {
                return Err(PdfError::Unavailable("the parsers stopped early".into()));
            };
            for (index, readings) in results? {
                done[index] = readings;
                missing -= 1;
            }
        }
        Ok(done.into_iter().flatten().collect())
    }
}

/// One child's share: it takes the next batch until there is none left.
async fn work(
    source: &Source<'_>,
    batches: &[&[PageNumber]],
    next: &AtomicUsize,
    options: &ReadOptions,
) -> Result<Vec<(usize, Vec<PageReading>)>, PdfError> {
    let mut done = Vec::new();
    let mut reader = Reader::start(source).await?;
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(batch) = batches.get(index) else { break };
        done.push((index, reader.read(batch, options).await?));
    }
    reader.finish();
    Ok(done)
}
