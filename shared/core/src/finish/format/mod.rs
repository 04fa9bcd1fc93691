//! The output formats of a result. A new one is a file with a `SPEC` and a line in the table below.

mod chunks;
mod json;
mod markdown;
mod pdf;
mod text;

use std::str::FromStr;

use super::result::ResultDocument;

/// One row of the table of formats.
pub struct Spec {
    /// The name, then its aliases.
    pub names: &'static [&'static str],
    pub extension: &'static str,
    pub mime: &'static str,
    pub make: Make,
}

pub type Render = fn(&ResultDocument) -> Vec<u8>;

/// How a format comes about.
#[derive(Clone, Copy)]
pub enum Make {
    /// Rendered when a version is published, and stored with it.
    Stored(Render),
    /// Rendered whenever it is asked for.
    OnDemand(Render),
    /// Made from the document and its result whenever it is asked for.
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
    Pdf => pdf::SPEC,
}

/// The JSON format of a result, which all others are made from.
pub fn json(document: &ResultDocument) -> Vec<u8> {
    json::render(document)
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

    /// `None` for a format that needs more than the result.
    pub fn render(self, document: &ResultDocument) -> Option<Vec<u8>> {
        match self.make() {
            Make::Stored(render) | Make::OnDemand(render) => Some(render(document)),
            Make::FromSource => None,
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
