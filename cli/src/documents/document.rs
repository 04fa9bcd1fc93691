//! The outcome of one document.

use std::path::PathBuf;

use everypage_core::{
    finish::result::ResultDocument,
    job::{Job, Status, StepCode},
    ports::pdf::PdfErrorCode,
};

use crate::exit::Exit;

pub struct Document {
    /// Its position among the documents of the command, which end in any order.
    pub index: usize,
    /// How messages call it.
    pub file: String,
    pub exit: Exit,
    /// Why there is no result, or why it was not written.
    pub error: Option<String>,
    /// The job existed already.
    pub repeated: bool,
    /// The command was cancelled before it came to this document.
    pub not_started: bool,
    pub job: Option<Job>,
    pub result: Option<ResultDocument>,
    /// The result in the requested format.
    pub bytes: Option<Vec<u8>>,
    pub written: Option<PathBuf>,
}

impl Document {
    /// A document that was not processed yet.
    pub fn new(index: usize, file: &str) -> Self {
        Self {
            index,
            file: file.to_owned(),
            exit: Exit::Failed,
            error: None,
            repeated: false,
            not_started: false,
            job: None,
            result: None,
            bytes: None,
            written: None,
        }
    }
}

/// Exit code and message of a job that did not end with a result.
pub fn failure(job: &Job) -> Option<(Exit, String)> {
    let failure = job.failure.as_ref();
    let reason = || failure.map_or("no reason was stored", |failure| failure.reason.as_str());
    match job.status() {
        Status::Success => None,
        Status::Cancelled => {
            job.result.is_none().then(|| (Exit::Cancelled, "cancelled before its pages were read".to_owned()))
        }
        Status::Rejected => Some((Exit::Failed, format!("rejected: {}", reason()))),
        Status::Failed => {
            let advice = failure.and_then(|failure| advice(&failure.code)).unwrap_or_default();
            Some((Exit::Failed, format!("{}{advice} (job {})", reason(), job.id)))
        }
        _ => Some((Exit::Cancelled, format!("not finished; another process works on it (job {})", job.id))),
    }
}

fn advice(code: &str) -> Option<&'static str> {
    if let Ok(code) = code.parse::<PdfErrorCode>() {
        return match code {
            PdfErrorCode::PasswordNeeded | PdfErrorCode::PasswordWrong => {
                Some("; pass the right one with --password-stdin")
            }
            PdfErrorCode::BadImage => Some("; save it again, as PNG or JPEG"),
            PdfErrorCode::Empty => Some("; copy or download it again"),
            PdfErrorCode::Corrupt | PdfErrorCode::NoPages => {
                Some("; get it again, or open it in a PDF reader and save it again")
            }
            PdfErrorCode::TooManyPages => Some("; split it or raise the limit"),
            PdfErrorCode::NotAPdf
            | PdfErrorCode::TooLarge
            | PdfErrorCode::NotSearchable
            | PdfErrorCode::ParserDied
            | PdfErrorCode::Unavailable => None,
        };
    }
    match code.parse() {
        Ok(StepCode::NoSuchPages) => Some("; choose other pages with --pages"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_the_caller_can_cure_have_advice() {
        for (code, expected) in [
            ("password_wrong", Some("--password-stdin")),
            ("empty_file", Some("copy or download")),
            ("corrupt_pdf", Some("PDF reader")),
            ("no_such_pages", Some("--pages")),
            ("file_too_large", None),
            ("encoding", None),
            ("internal", None),
        ] {
            let advice = advice(code);
            assert_eq!(advice.is_some(), expected.is_some(), "{code}");
            assert!(advice.unwrap_or_default().contains(expected.unwrap_or_default()), "{code}");
        }
    }
}
