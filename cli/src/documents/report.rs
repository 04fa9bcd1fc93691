//! What became of the files of one command, for people and for programs.

use everypage_core::{domain::result::ResultMetadata, usecases::result::Form};
use serde::Serialize;

use super::{Stay, document::Document};
use crate::{exit::Exit, screen::Screen, summary};

pub fn exit(documents: &[Document]) -> Exit {
    documents.iter().map(|document| document.exit).max().unwrap_or(Exit::Complete)
}

/// Everything but the text itself, on standard error.
pub fn tell(screen: &Screen, documents: &[Document], stay: Stay) {
    for document in documents {
        let file = document.file.display();
        match document.job.as_ref() {
            Some(job) if stay == Stay::UntilAccepted => {
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

/// The summary for programs.
#[derive(Serialize)]
pub struct Report<'a> {
    documents: Vec<Told<'a>>,
    exit_code: u8,
}

/// `program` is how to call us again.
pub fn for_programs<'a>(documents: &'a [Document], form: Form, program: &str) -> Report<'a> {
    let told = documents.iter().map(|document| Told::of(document, form, program)).collect();
    Report { documents: told, exit_code: exit(documents).code() }
}

#[derive(Serialize)]
struct Told<'a> {
    file: String,
    status: String,
    exit_code: u8,
    repeated: bool,
    job: Option<&'a str>,
    error: Option<Error<'a>>,
    result: Option<Kept>,
    pages: Vec<summary::Origin>,
    metadata: Option<&'a ResultMetadata>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    reason: &'a str,
}

/// Where the result is.
#[derive(Serialize)]
struct Kept {
    version: u32,
    /// Set when it was written to a folder.
    file: Option<String>,
    /// Prints it, now and later.
    command: String,
}

impl<'a> Told<'a> {
    fn of(document: &'a Document, form: Form, program: &str) -> Self {
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
            result: job.zip(result).map(|(job, result)| Kept {
                version: result.version,
                file: document.written.as_ref().map(|path| path.display().to_string()),
                command: format!("{program} jobs result {} --format {}", job.id, form_name(form)),
            }),
            pages: document.result.iter().flat_map(summary::origins).collect(),
            metadata: result.map(|result| &result.metadata),
        }
    }
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Markdown => "markdown",
        Form::Json => "json",
    }
}
