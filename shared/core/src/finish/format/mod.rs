//! The output formats of a result. A new one is a file with a `SPEC` and a line in the table below.

mod json;
mod markdown;
mod text;

use std::str::FromStr;

use super::result::ResultDocument;

/// One row of the table of formats.
pub struct Spec {
    /// The name, then its aliases.
    pub names: &'static [&'static str],
    pub extension: &'static str,
    pub mime: &'static str,
    pub render: fn(&ResultDocument) -> Vec<u8>,
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

    pub fn render(self, document: &ResultDocument) -> Vec<u8> {
        (self.spec().render)(document)
    }

    /// The formats that are rendered from the stored JSON: all but JSON itself.
    pub fn derived() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|format| *format != Self::Json)
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
