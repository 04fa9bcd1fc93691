//! How one file is to be read, and how that ended.

use std::{path::PathBuf, time::Duration};

use everypage_core::{document::ImageStyle, ports::pdf::PdfLimits};
use everypage_pdf::ChildFailures;
use serde::{Deserialize, Serialize};

/// No `Debug`: it may contain a password.
#[derive(Clone, Serialize, Deserialize)]
pub struct ReadRequest {
    pub limits: PdfLimits,
    pub password: Option<String>,
    /// Limits the opening of the document.
    pub step_timeout: Duration,
    /// The deadline that a job would have.
    pub time_limit: Duration,
    pub range_pages: u32,
    pub image: ImageStyle,
    /// Whether pages without a text layer are given to OCR, if its program and data are there.
    pub ocr: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Every page was read or is known to be unreadable.
    Text(Pages),
    /// The file was rejected with a code and a message.
    Error { code: String, message: String },
    /// What must not happen, whatever the file contains.
    Defect { kind: DefectKind, what: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    pub pages: u32,
    /// Fewer than `pages` when the time limit came first.
    pub read: u32,
    pub unreadable: u32,
    pub characters: u64,
    pub images: u32,
    /// Pages that OCR read.
    #[serde(default)]
    pub recognized: u32,
    /// Pages whose text was read and whose image could not be rendered.
    pub unrendered: u32,
    /// The time limit ended the reading, as a job's deadline would.
    pub cut: bool,
    /// The first messages about pages that could not be read or rendered.
    pub faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefectKind {
    /// Everypage's own process died or panicked, or its code in the parser's process panicked.
    Crash,
    /// Reading continued after its time limit.
    Hang,
    Memory,
    /// Pages are missing, out of order, or not the requested ones.
    Pages,
    /// An error message is empty, or unfit for a terminal.
    Words,
    /// The file was not read at all.
    Unavailable,
}

impl DefectKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Hang => "hang",
            Self::Memory => "memory",
            Self::Pages => "pages",
            Self::Words => "words",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What the process that reads a file returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadResult {
    pub outcome: Outcome,
    pub losses: ChildFailures,
}

/// The outcome of a file and what its reading took.
#[derive(Debug, Serialize)]
pub struct FileReport {
    pub file: PathBuf,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Parsers that died or were stopped, which is contained and not a defect.
    pub losses: ChildFailures,
    pub milliseconds: u64,
    /// Peak memory of the process that read the file, and of its parsers.
    pub own_bytes: u64,
    pub parser_bytes: u64,
}

impl Outcome {
    /// One line for people.
    pub fn line(&self) -> String {
        match self {
            Self::Text(pages) => {
                let mut line = match pages.cut {
                    true => format!("{} of {} pages in time", pages.read, pages.pages),
                    false => crate::human::count(pages.pages.into(), "page", "pages"),
                };
                line += &format!(", {} characters, {} images", pages.characters, pages.images);
                let why = pages.faults.first().map_or("", String::as_str);
                if pages.recognized > 0 {
                    line += &format!(", {} by OCR", pages.recognized);
                }
                if pages.unreadable > 0 {
                    line += &format!(", {} unreadable ({why})", pages.unreadable);
                } else if pages.unrendered > 0 {
                    line += &format!(", {} not rendered ({why})", pages.unrendered);
                }
                line
            }
            Self::Error { code, message } => format!("{code}: {message}"),
            Self::Defect { kind, what } => format!("{}: {what}", kind.word()),
        }
    }
}
