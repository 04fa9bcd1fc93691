//! The outcome of the documents of one command, for people and for programs.

use everypage_core::{finish::format::Format, job::ResultMetadata};
use serde::Serialize;

use super::{WaitUntil, document::Document, totals::Totals};
use crate::{args::Documents, exit::Exit, problem::Problem, screen::Screen, summary};

/// Failures that are listed again at the end; lines before scroll away.
const MAX_LISTED: usize = 20;
/// With no more documents than this, all their lines are still in sight.
const MAX_IN_SIGHT: usize = 10;

/// Reports each document when it has ended, and keeps no more of it than its part of the summary.
pub struct Report<'a> {
    screen: &'a Screen,
    args: &'a Documents,
    /// This program, for commands in the summary.
    program: &'a str,
    several: bool,
    wait: WaitUntil,
    exit: Exit,
    totals: Totals,
    /// For `--json`.
    documents: Vec<DocumentSummary>,
    failures: Vec<String>,
    count: usize,
    /// The result, where it goes to standard output.
    bytes: Option<Vec<u8>>,
    accepted: Vec<String>,
}

impl<'a> Report<'a> {
    pub fn new(
        screen: &'a Screen,
        args: &'a Documents,
        program: &'a str,
        several: bool,
        wait: WaitUntil,
    ) -> Self {
        Self {
            screen,
            args,
            program,
            several,
            wait,
            exit: Exit::Complete,
            totals: Totals::default(),
            documents: Vec::new(),
            failures: Vec::new(),
            count: 0,
            bytes: None,
            accepted: Vec::new(),
        }
    }

    pub fn add(&mut self, document: Document) {
        self.count += 1;
        self.exit = self.exit.max(document.exit);
        self.totals.add(&document);
        // The table counts those that were not started.
        if !(self.several && document.not_started) {
            self.print(&document);
        }
        if let (Some(error), Exit::Failed) = (&document.error, document.exit) {
            self.failures.push(format!("{}: {error}", document.file));
        }
        if self.args.json {
            self.documents.push(DocumentSummary::of(&document, self.args.format, self.program));
        }
        if let (WaitUntil::Accepted, Some(job)) = (self.wait, &document.job) {
            self.accepted.push(job.id.to_string());
        }
        if self.args.output.is_none() && !self.args.json && !self.several {
            self.bytes = document.bytes;
        }
    }

    /// Prints the table, and on standard output what the command promises there.
    pub fn end(mut self, took: String) -> Result<Exit, Problem> {
        if self.several {
            self.print_totals(&took);
        }
        if self.args.json {
            self.documents.sort_by_key(|document| document.index);
            self.screen.print_json(&Summary {
                documents: &self.documents,
                totals: &self.totals,
                exit_code: self.exit.code(),
            })?;
        } else if self.wait == WaitUntil::Accepted {
            for job in &self.accepted {
                self.screen.print_line(job)?;
            }
        } else if let Some(bytes) = &self.bytes {
            self.screen.print(bytes)?;
        }
        Ok(self.exit)
    }

    /// Prints everything but the text, on standard error.
    fn print(&self, document: &Document) {
        let (screen, file) = (self.screen, &document.file);
        match document.job.as_ref() {
            Some(job) if self.wait == WaitUntil::Accepted => {
                screen.note(&format!("{file}: {} (job {})", job.status(), job.id));
            }
            Some(job) if job.result.is_some() => {
                let written = document.written.as_ref();
                let place = written.map(|path| format!(", written to {}", path.display()));
                let place = place.unwrap_or_default();
                if self.several {
                    let pages = summary::page_facts(job);
                    let before = if document.repeated { ", done before" } else { "" };
                    screen.note(&format!("{file}: {}{pages}{before}{place}", summary::headline(job)));
                } else {
                    screen.note(&format!("{file}: {}", summary::headline(job)));
                }
                // One line is enough where all is well.
                if !self.several || document.exit > Exit::Complete {
                    for line in document.result.iter().flat_map(summary::origin_lines) {
                        screen.note(&line);
                    }
                }
                if !self.several {
                    screen.note(&format!("  job {}{place}", job.id));
                }
            }
            _ => {}
        }
        if let Some(error) = &document.error {
            match document.exit {
                Exit::Cancelled => screen.note(&format!("{file}: {error}")),
                _ => screen.error(&format!("{file}: {error}")),
            }
        }
    }

    fn print_totals(&self, took: &str) {
        self.screen.note("");
        for line in self.totals.lines(took) {
            self.screen.note(&line);
        }
        if self.count <= MAX_IN_SIGHT || self.failures.is_empty() {
            return;
        }
        self.screen.note("\nFailed:");
        for failure in self.failures.iter().take(MAX_LISTED) {
            self.screen.note(&format!("  {failure}"));
        }
        if let Some(more) = self.failures.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            self.screen.note(&format!("  and {more} more; --json lists them all"));
        }
    }
}

/// The summary of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    documents: &'a [DocumentSummary],
    totals: &'a Totals,
    exit_code: u8,
}

#[derive(Serialize)]
struct DocumentSummary {
    #[serde(skip)]
    index: usize,
    file: String,
    status: String,
    exit_code: u8,
    repeated: bool,
    job: Option<String>,
    error: Option<Error>,
    result: Option<ResultLocation>,
    pages: Vec<summary::Origin>,
    metadata: Option<ResultMetadata>,
}

#[derive(Serialize)]
struct Error {
    code: String,
    reason: String,
}

#[derive(Serialize)]
struct ResultLocation {
    version: u32,
    /// Set when the result was written to a folder.
    file: Option<String>,
    /// Prints the result.
    command: String,
}

impl DocumentSummary {
    fn of(document: &Document, form: Format, program: &str) -> Self {
        let job = document.job.as_ref();
        let result = job.and_then(|job| job.result.as_ref());
        let code = job.and_then(|job| job.failure.as_ref()).map(|failure| failure.code.as_str());
        let cancelled = document.exit == Exit::Cancelled;
        let unread = if cancelled { "cancelled" } else { "failed" };
        Self {
            index: document.index,
            file: document.file.clone(),
            status: job.map_or_else(|| unread.to_owned(), |job| job.status().to_string()),
            exit_code: document.exit.code(),
            repeated: document.repeated,
            job: job.map(|job| job.id.to_string()),
            error: document.error.clone().map(|reason| Error {
                code: code.unwrap_or(if cancelled { "cancelled" } else { "not_processed" }).to_owned(),
                reason,
            }),
            result: job.zip(result).map(|(job, result)| ResultLocation {
                version: result.version,
                file: document.written.as_ref().map(|path| path.display().to_string()),
                command: format!("{program} jobs result {} --format {}", job.id, form.name()),
            }),
            pages: document.result.iter().flat_map(summary::origins).collect(),
            metadata: result.map(|result| result.metadata.clone()),
        }
    }
}
