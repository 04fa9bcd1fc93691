//! Reads pages of one document through one process after another, as many as it takes.

use std::{path::Path, sync::Arc, time::Duration};

use everypage_core::{
    domain::{document::PageReading, ids::PageNumber, secret::Secret},
    ports::pdf::{PdfError, PdfLimits, ReadOptions},
};

use super::{
    command::ChildCommand,
    pool::{Key, Pool, Slot},
    worker::{Lost, NotOpened, Worker},
};
use crate::document::unreadable;

/// A document to be read, and by what means.
pub(super) struct Source<'a> {
    pub pool: &'a Arc<Pool>,
    pub command: &'a ChildCommand,
    pub limits: &'a PdfLimits,
    pub open_timeout: Duration,
    pub file: &'a Path,
    pub password: Option<&'a Secret>,
    pub key: Key,
}

/// Holds a slot. Dropped in the middle of something, its process dies with it.
pub(super) struct Reader<'a> {
    source: &'a Source<'a>,
    _slot: Slot,
    worker: Option<Worker>,
    /// The parser aborted on a page that then went well with extra care; so may the next ones.
    careful: bool,
}

impl<'a> Reader<'a> {
    pub async fn start(source: &'a Source<'a>) -> Result<Self, PdfError> {
        let slot = source.pool.slot().await.ok_or_else(|| PdfError::Unavailable("shutting down".into()))?;
        Ok(Self { source, _slot: slot, worker: source.pool.take(&source.key), careful: false })
    }

    /// Opens the document, unless it is open already, and counts its pages.
    pub async fn count(&mut self) -> Result<u32, PdfError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.open().await?,
        };
        Ok(self.worker.insert(worker).page_count)
    }

    /// One reading per page, in order.
    pub async fn read(
        &mut self,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let mut readings = Vec::with_capacity(pages.len());
        let mut retried = false;
        while let Some(rest) = pages.get(readings.len()..).filter(|rest| !rest.is_empty()) {
            let mut worker = match self.worker.take() {
                Some(worker) => worker,
                None => self.open().await?,
            };
            worker.ask(rest, options, self.careful).await;
            let Some((number, lost)) = self.collect(&mut worker, rest, &mut readings, &mut retried).await
            else {
                self.worker = Some(worker);
                break;
            };
            let was_fresh = worker.pages_read == 0;
            worker.bury().await;
            self.source.pool.losses.count(&lost);
            tracing::warn!(page = number.get(), cause = %lost, careful = self.careful, "a parser's process was lost");
            if lost.by_abort() && !self.careful {
                (self.careful, retried) = (true, true);
                continue;
            }
            // An earlier page may have damaged the process's memory: this one may be innocent.
            if matches!(lost, Lost::Ended(_)) && !was_fresh {
                continue;
            }
            if retried {
                // Care did not help, so it was not what the page needed.
                (self.careful, retried) = (false, false);
            }
            readings.push(unreadable(number, fault(&lost)));
        }
        Ok(readings)
    }

    /// Takes answers until all are there (`None`) or the process is lost at a page.
    async fn collect(
        &self,
        worker: &mut Worker,
        rest: &[PageNumber],
        readings: &mut Vec<PageReading>,
        retried: &mut bool,
    ) -> Option<(PageNumber, Lost)> {
        for &number in rest {
            match worker.next_page(number, self.source.limits.page_timeout).await {
                Ok(reading) => readings.push(reading),
                Err(lost) => return Some((number, lost)),
            }
            *retried = false;
        }
        None
    }

    /// Gives the process back for the document's next range.
    pub fn finish(mut self) {
        if let Some(worker) = self.worker.take() {
            self.source.pool.keep(self.source.key.clone(), worker);
        }
    }

    async fn open(&self) -> Result<Worker, PdfError> {
        let Source { command, file, password, limits, open_timeout, .. } = *self.source;
        let mut worker = Worker::spawn(command)
            .map_err(|error| PdfError::Unavailable(format!("no process for the parser: {error}")))?;
        match worker.open(file, password, limits, open_timeout).await {
            Ok(()) => Ok(worker),
            Err(not_opened) => {
                worker.bury().await;
                Err(match not_opened {
                    NotOpened::Refused(error) => error,
                    NotOpened::Lost(lost) => {
                        self.source.pool.losses.count(&lost);
                        PdfError::ParserDied(lost.to_string())
                    }
                })
            }
        }
    }
}

fn fault(lost: &Lost) -> String {
    match lost {
        Lost::TimedOut(_) => lost.to_string(),
        _ => format!("the parser {lost} at this page"),
    }
}
