//! Where a page's text came from, and why a fallback was used.

use serde::{Deserialize, Serialize, de::Error as _};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

/// The producer of the text of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::EnumIter)]
#[strum(serialize_all = "snake_case")]
pub enum TextSource {
    /// A vision model.
    Ai,
    /// MuPDF, from the text layer of the PDF.
    Mupdf,
    /// OCR, from the image of a page without a sound text layer.
    Ocr,
}

/// Why a page that was planned for AI has text from another source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumIter)]
pub enum Fallback {
    /// No model returned the page's text, or the job was cancelled.
    NoAnswer,
    /// The job's deadline passed first.
    Timeout,
}

/// The source of a page's text with the reason for a fallback. Its name in results and events is
/// derived from the two: `ai`, `mupdf`, `mupdf_fallback`, `mupdf_timeout_fallback`, and the same for `ocr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    pub text: TextSource,
    pub fallback: Option<Fallback>,
}

impl Source {
    pub const AI: Self = Self { text: TextSource::Ai, fallback: None };
    pub const MUPDF: Self = Self { text: TextSource::Mupdf, fallback: None };
    pub const MUPDF_FALLBACK: Self = Self { text: TextSource::Mupdf, fallback: Some(Fallback::NoAnswer) };
    pub const MUPDF_TIMEOUT_FALLBACK: Self =
        Self { text: TextSource::Mupdf, fallback: Some(Fallback::Timeout) };
    pub const OCR: Self = Self { text: TextSource::Ocr, fallback: None };
    pub const OCR_FALLBACK: Self = Self { text: TextSource::Ocr, fallback: Some(Fallback::NoAnswer) };
    pub const OCR_TIMEOUT_FALLBACK: Self = Self { text: TextSource::Ocr, fallback: Some(Fallback::Timeout) };

    /// Every source that a page can have.
    pub const ALL: [Self; 7] = [
        Self::AI,
        Self::MUPDF,
        Self::MUPDF_FALLBACK,
        Self::MUPDF_TIMEOUT_FALLBACK,
        Self::OCR,
        Self::OCR_FALLBACK,
        Self::OCR_TIMEOUT_FALLBACK,
    ];

    /// Whether the page was planned for AI and has text from another source.
    pub fn is_fallback(self) -> bool {
        self.fallback.is_some()
    }

    pub fn name(self) -> String {
        let text: &'static str = self.text.into();
        match self.fallback {
            None => text.to_owned(),
            Some(Fallback::NoAnswer) => format!("{text}_fallback"),
            Some(Fallback::Timeout) => format!("{text}_timeout_fallback"),
        }
    }
}

impl PartialSchema for Source {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.map(Self::name)))
            .description(Some("Where the text of a page came from."))
            .into()
    }
}

impl ToSchema for Source {}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name())
    }
}

impl Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.into_iter().find(|source| source.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("unknown text source {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn every_combination_that_can_occur_has_a_name_that_reads_back() {
        let names: Vec<String> = Source::ALL.iter().map(|source| source.name()).collect();
        assert_eq!(names[..4], ["ai", "mupdf", "mupdf_fallback", "mupdf_timeout_fallback"]);
        assert_eq!(names[4..], ["ocr", "ocr_fallback", "ocr_timeout_fallback"]);
        for text in TextSource::iter().filter(|text| *text != TextSource::Ai) {
            for fallback in Fallback::iter().map(Some).chain([None]) {
                let source = Source { text, fallback };
                let read: Source = serde_json::from_value(serde_json::json!(source)).unwrap();
                assert_eq!(read, source);
            }
        }
    }
}
