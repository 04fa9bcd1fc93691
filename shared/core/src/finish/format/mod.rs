//! The output formats of a result. A new one is a file with a `SPEC` and a line in the table below.

mod chunks;
mod json;
mod markdown;
mod pdf;
mod text;
mod words;

use std::str::FromStr;

use super::result::{PageResult, ResultDocument};
use crate::document::{PageWord, TableStyle};

/// One row of the table of formats.
pub struct Spec {
    /// The name, then its aliases.
    pub names: &'static [&'static str],
    pub extension: &'static str,
    pub mime: &'static str,
    pub make: Make,
    /// Whether its tables can be written in another style.
    pub has_table_styles: bool,
}

pub type Render = fn(&ResultDocument, TableStyle) -> Vec<u8>;
/// Takes the pages of the result in order, each with the words that OCR found on it.
pub type RenderWords = fn(&ResultDocument, &[(&PageResult, Vec<PageWord>)]) -> Vec<u8>;

/// How a format comes about.
#[derive(Clone, Copy)]
pub enum Make {
    /// Rendered when a version is published, and stored with it.
    Stored(Render),
    /// Rendered with each request.
    OnDemand(Render),
    /// Rendered from the result and what OCR stored, with each request.
    FromWords(RenderWords),
    /// Made from the document and its result with each request.
    FromSource,
}

macro_rules! formats {
    ($($format:ident => $spec:path),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($format),*
        }

        impl Format {
            pub const ALL: &'static [Self] = &[$(Self::$format),*];

            pub const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$format => &$spec),*
                }
            }
        }
    };
}

formats! {
    Text => text::SPEC,
    Markdown => markdown::SPEC,
    Json => json::SPEC,
    Chunks => chunks::SPEC,
    Words => words::SPEC,
    Pdf => pdf::SPEC,
}

/// The JSON format of a result, which all others are made from.
pub fn json(document: &ResultDocument) -> Vec<u8> {
    json::render(document, TableStyle::default())
}

impl Format {
    pub fn name(self) -> &'static str {
        self.spec().names[0]
    }

    pub fn extension(self) -> &'static str {
        self.spec().extension
    }

    pub fn mime(self) -> &'static str {
        self.spec().mime
    }

    pub fn make(self) -> Make {
        self.spec().make
    }

    /// Refuses a style of tables that the format doesn't have.
    pub fn check_tables(self, tables: TableStyle) -> Result<(), String> {
        match tables == TableStyle::default() || self.spec().has_table_styles {
            true => Ok(()),
            false => {
                let with_styles = Self::ALL.iter().filter(|format| format.spec().has_table_styles);
                let names: Vec<&str> = with_styles.map(|format| format.name()).collect();
                Err(format!("{self} has no tables as {tables}; {} have", names.join(" and ")))
            }
        }
    }

    /// Whether this is what is stored with each version: tables in another style are rendered with each request.
    pub fn is_stored(self, tables: TableStyle) -> bool {
        matches!(self.make(), Make::Stored(_))
            && (tables == TableStyle::default() || !self.spec().has_table_styles)
    }

    /// `None` for a format that needs more than the result.
    pub fn render(self, document: &ResultDocument, tables: TableStyle) -> Option<Vec<u8>> {
        match self.make() {
            Make::Stored(render) | Make::OnDemand(render) => Some(render(document, tables)),
            Make::FromWords(_) | Make::FromSource => None,
        }
    }

    /// The formats that are rendered from the JSON and stored with it.
    pub fn derived() -> impl Iterator<Item = (Self, Render)> {
        Self::ALL.iter().filter_map(|format| match format.make() {
            Make::Stored(render) if *format != Self::Json => Some((*format, render)),
            _ => None,
        })
    }

    /// The names of all formats, for help texts and errors.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|format| format.name()).collect()
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        let found = Self::ALL.iter().find(|format| format.spec().names.contains(&name.as_str()));
        found
            .copied()
            .ok_or_else(|| format!("unknown format {text:?} (accepted: {})", Self::names().join(", ")))
    }
}
