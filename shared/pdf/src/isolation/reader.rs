//! Reads pages of one document in a child process, and starts another one when it fails.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    document::PageReading,
    ids::PageNumber,
    ports::pdf::{PageLayer, PdfError, PdfLimits, PdfSource, ReadOptions},
};

use super::{
    command::ChildCommand,
    lane::Lane,
    pool::{Key, Pool},
    process::{ChildFailure, OpenError, ParserProcess, SearchableError},
    slots::Slot,
};
use crate::document::unreadable;

/// A document to read, and what is needed to read it.
pub(super) struct OpenSource<'a> {
    pub pool: &'a Arc<Pool>,
    pub command: &'a ChildCommand,
    pub limits: &'a PdfLimits,
    pub open_timeout: Duration,
    pub document: PdfSource<'a>,
    pub key: Key,
}

/// Reads a document while it holds a slot. Dropping it during a request kills its process.
pub(super) struct Reader<'a> {
    source: &'a OpenSource<'a>,
    lane: Lane,
    _slot: Slot,
    process: Option<ParserProcess>,
    /// The parser aborted on a page that was then read in careful mode; later pages may need it too.
    pub careful: bool,
}

impl<'a> Reader<'a> {
    /// Waits for a slot.
    pub async fn start(source: &'a OpenSource<'a>, lane: Lane) -> Self {
        let slot = source.pool.slot(lane, source.document.tenant).await;
        let mut process = source.pool.take(&source.key, lane);
        if let Some(process) = &mut process {
            process.lower_priority(lane.nice());
        }
        Self { source, lane, _slot: slot, process, careful: false }
    }

    /// Opens the document, unless it is open already, and returns its page count.
    pub async fn count(&mut self) -> Result<u32, PdfError> {
        let process = match self.process.take() {
            Some(process) => process,
            None => self.open().await?,
        };
        Ok(self.process.insert(process).page_count)
    }

    /// Returns one reading per page, in order. A page whose image could not be rendered before has the same fault
    /// again, without another attempt.
    pub async fn read(
        &mut self,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let OpenSource { pool, key, .. } = self.source;
        let mut failed = Vec::new();
        let mut untried = Vec::with_capacity(pages.len());
        for &page in pages {
            let fault = pool.failed_drawings.fault(key, page).filter(|_| self.lane == Lane::Images);
            match fault {
                Some(fault) => failed.push(unreadable(page, fault)),
                None => untried.push(page),
            }
        }
        let mut readings = self.try_read(&untried, options).await?;
        readings.extend(failed);
        readings.sort_by_key(|reading| reading.number);
        Ok(readings)
    }

    async fn try_read(
        &mut self,
        pages: &[PageNumber],
        options: &ReadOptions,
    ) -> Result<Vec<PageReading>, PdfError> {
        let mut readings = Vec::with_capacity(pages.len());
        let mut retried = false;
        while let Some(rest) = pages.get(readings.len()..).filter(|rest| !rest.is_empty()) {
            let mut process = match self.process.take() {
                Some(process) => process,
                None => self.open().await?,
            };
            process.request_pages(rest, options, self.careful).await;
            let Some((number, failure)) = self.collect(&mut process, rest, &mut readings, &mut retried).await
            else {
                self.process = Some(process);
                break;
            };
            let was_fresh = process.pages_read == 0;
            process.kill().await;
            self.source.pool.failures.count(&failure);
            tracing::warn!(page = number.get(), cause = %failure, careful = self.careful, "parser process failed");
            if failure.is_abort() && !self.careful {
                (self.careful, retried) = (true, true);
                continue;
            }
            // An earlier page may have corrupted the process's memory: retry this one in a new process.
            if matches!(failure, ChildFailure::Exited(_)) && !was_fresh {
                continue;
            }
            if retried {
                // Careful mode did not help with this page: return to the normal one.
                (self.careful, retried) = (false, false);
            }
            let fault = fault(&failure);
            if self.lane == Lane::Images {
                self.source.pool.failed_drawings.remember(&self.source.key, number, &fault);
            }
            readings.push(unreadable(number, fault));
        }
        Ok(readings)
    }

    /// Receives readings until all pages are read (`None`) or the process fails at a page.
    async fn collect(
        &self,
        process: &mut ParserProcess,
        rest: &[PageNumber],
        readings: &mut Vec<PageReading>,
        retried: &mut bool,
    ) -> Option<(PageNumber, ChildFailure)> {
        let limits = self.source.limits;
        let time = match self.lane {
            Lane::Text => limits.page_timeout,
            Lane::Images => limits.page_timeout.min(limits.render_timeout),
        };
        for &number in rest {
            match process.next_page(number, time).await {
                Ok(reading) => readings.push(reading),
                Err(failure) => return Some((number, failure)),
            }
            *retried = false;
        }
        None
    }

    /// Makes a searchable PDF. The process that did it has another document in memory then, and ends.
    pub async fn searchable(mut self, layers: &[PageLayer], time: Duration) -> Result<Vec<u8>, PdfError> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => self.open().await?,
        };
        // Text and a font are added, and what was compressed may not be any more.
        let max_bytes = self.source.limits.max_file_bytes.saturating_mul(2).saturating_add(64 << 20);
        let made = process.searchable(layers, time, max_bytes).await;
        process.kill().await;
        made.map_err(|error| match error {
            SearchableError::Refused(reason) => PdfError::NotSearchable(reason),
            SearchableError::Child(failure) => {
                self.source.pool.failures.count(&failure);
                PdfError::NotSearchable(format!("the parser {failure}"))
            }
        })
    }

    /// Puts the process back into the pool, for the document's next range.
    pub fn finish(mut self) {
        if let Some(process) = self.process.take() {
            self.source.pool.put_back(self.source.key.clone(), process);
        }
    }

    async fn open(&self) -> Result<ParserProcess, PdfError> {
        let OpenSource { command, document, limits, open_timeout, .. } = *self.source;
        let mut process = ParserProcess::spawn(command, document.file).map_err(|error| {
            PdfError::Unavailable(format!("the parser process can't be started: {error}"))
        })?;
        process.lower_priority(self.lane.nice());
        match process.open(document.password, limits, open_timeout).await {
            Ok(()) => Ok(process),
            Err(error) => {
                process.kill().await;
                Err(match error {
                    OpenError::Pdf(error) => error,
                    OpenError::Child(failure) => {
                        self.source.pool.failures.count(&failure);
                        PdfError::ParserDied(failure.to_string())
                    }
                })
            }
        }
    }
}

fn fault(failure: &ChildFailure) -> String {
    match failure {
        ChildFailure::TimedOut(_) => failure.to_string(),
        _ => format!("the parser {failure} at this page"),
    }
}
