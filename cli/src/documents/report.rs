//! The outcome of the files of one command, for people and for programs.

use everypage_core::{finish::format::Format, job::ResultMetadata};
use serde::Serialize;

use super::{WaitUntil, document::Document};
use crate::{exit::Exit, screen::Screen, summary};

pub fn exit(documents: &[Document]) -> Exit {
    documents.iter().map(|document| document.exit).max().unwrap_or(Exit::Complete)
}

/// Prints everything but the text, on standard error.
pub fn print(screen: &Screen, documents: &[Document], wait: WaitUntil) {
    for document in documents {
        let file = document.file.display();
        match document.job.as_ref() {
            Some(job) if wait == WaitUntil::Accepted => {
                screen.note(&format!("{file}: {} (job {})", job.status(), job.id));
            }
            Some(job) if job.result.is_some() => {
                screen.note(&format!("{file}: {}", summary::headline(job)));
                for line in document.result.iter().flat_map(summary::origin_lines) {
                    screen.note(&line);
                }
                let written = document.written.as_ref();
                let place = written.map(|path| format!(", written to {}", path.display()));
                screen.note(&format!("  job {}{}", job.id, place.unwrap_or_default()));
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
}

/// The summary of `--json`.
#[derive(Serialize)]
pub struct Summary<'a> {
    documents: Vec<DocumentSummary<'a>>,
    exit_code: u8,
}

/// `program` is this program, for commands in the summary.
pub fn summary<'a>(documents: &'a [Document], form: Format, program: &str) -> Summary<'a> {
    let exit_code = exit(documents).code();
    let documents = documents.iter().map(|document| DocumentSummary::of(document, form, program)).collect();
    Summary { documents, exit_code }
}

#[derive(Serialize)]
struct DocumentSummary<'a> {
    file: String,
    status: String,
    exit_code: u8,
    repeated: bool,
    job: Option<&'a str>,
    error: Option<Error<'a>>,
    result: Option<ResultLocation>,
    pages: Vec<summary::Origin>,
    metadata: Option<&'a ResultMetadata>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct ResultLocation {
    version: u32,
    /// Set when the result was written to a folder.
    file: Option<String>,
    /// Prints the result.
    command: String,
}

impl<'a> DocumentSummary<'a> {
    fn of(document: &'a Document, form: Format, program: &str) -> Self {
        let job = document.job.as_ref();
        let result = job.and_then(|job| job.result.as_ref());
        let code = job.and_then(|job| job.failure.as_ref()).map(|failure| failure.code.as_str());
        let cancelled = document.exit == Exit::Cancelled;
        let unread = if cancelled { "cancelled" } else { "failed" };
        Self {
            file: document.file.display().to_string(),
            status: job.map_or_else(|| unread.to_owned(), |job| job.status().to_string()),
            exit_code: document.exit.code(),
            repeated: document.repeated,
            job: job.map(|job| job.id.as_str()),
            error: document.error.as_deref().map(|reason| Error {
                code: code.unwrap_or(if cancelled { "cancelled" } else { "not_processed" }),
                reason,
            }),
            result: job.zip(result).map(|(job, result)| ResultLocation {
                version: result.version,
                file: document.written.as_ref().map(|path| path.display().to_string()),
                command: format!("{program} jobs result {} --format {}", job.id, form.name()),
            }),
            pages: document.result.iter().flat_map(summary::origins).collect(),
            metadata: result.map(|result| &result.metadata),
        }
    }
}
