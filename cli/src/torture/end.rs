//! What is asked of one file, and how it ended.

use std::{path::PathBuf, time::Duration};

use everypage_core::{domain::document::ImageStyle, ports::pdf::PdfLimits};
use everypage_pdf::Losses;
use serde::{Deserialize, Serialize};

/// How a file is to be read. No `Debug`: it may hold a password.
#[derive(Clone, Serialize, Deserialize)]
pub struct Order {
    pub limits: PdfLimits,
    pub password: Option<String>,
    /// For opening the document.
    pub step_timeout: Duration,
    /// The deadline that a job would have.
    pub time_limit: Duration,
    pub range_pages: u32,
    pub image: ImageStyle,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// It has pages, and each was read or is known to be unreadable.
    Text(Pages),
    /// It was refused, by name and in words.
    Error { code: String, message: String },
    /// What must not happen, whatever is in the file.
    Defect { kind: Kind, what: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    pub pages: u32,
    /// Fewer when the time was over before all were read.
    pub read: u32,
    pub unreadable: u32,
    pub characters: u64,
    pub images: u32,
    /// Pages with text that could not be drawn.
    pub undrawn: u32,
    /// The time limit came, as a job's deadline would have.
    pub cut: bool,
    /// The first words on pages that could not be read or drawn.
    pub faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Our own process died or panicked, or the code in the parser's process panicked.
    Crash,
    /// It went on after its time limit.
    Hang,
    Memory,
    /// Pages are missing, out of order, or not what was asked for.
    Pages,
    /// An error that says nothing, or what no terminal should be sent.
    Words,
    /// Our side was at fault and the file was not even tried.
    Unavailable,
}

impl Kind {
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

/// What the process that reads a file says of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    pub end: End,
    pub losses: Losses,
}

/// A file's whole story.
#[derive(Debug, Serialize)]
pub struct Ended {
    pub file: PathBuf,
    #[serde(flatten)]
    pub end: End,
    /// Parsers that died or were stopped, which is contained and no defect.
    pub losses: Losses,
    pub milliseconds: u64,
    /// The most memory of our own process and of a parser's.
    pub own_bytes: u64,
    pub parser_bytes: u64,
}

impl End {
    /// One line for people.
    pub fn line(&self) -> String {
        match self {
            Self::Text(pages) => {
                let mut line = match pages.cut {
                    true => format!("{} of {} pages in time", pages.read, pages.pages),
                    false => crate::human::count(pages.pages as usize, "page", "pages"),
                };
                line += &format!(", {} characters, {} images", pages.characters, pages.images);
                let why = pages.faults.first().map_or("", String::as_str);
                if pages.unreadable > 0 {
                    line += &format!(", {} unreadable ({why})", pages.unreadable);
                } else if pages.undrawn > 0 {
                    line += &format!(", {} not drawn ({why})", pages.undrawn);
                }
                line
            }
            Self::Error { code, message } => format!("{code}: {message}"),
            Self::Defect { kind, what } => format!("{}: {what}", kind.word()),
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Error { .. } => "error",
            Self::Defect { .. } => "DEFECT",
        }
    }
}
