//! Result formats over HTTP: media types, the values of `?format=` and the OpenAPI document are all derived
//! from core's table of formats.

use everypage_core::{document::TableStyle, finish::result::ResultDocument};
use utoipa::{
    ToSchema,
    openapi::{
        Content, ContentBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, schema::Type,
    },
};

use crate::openapi::one_of;

pub use everypage_core::finish::format::Format;

/// The media type of a format, without parameters.
fn media_type(format: Format) -> &'static str {
    let mime = format.mime();
    mime.split_once(';').map_or(mime, |(essence, _)| essence)
}

/// Every media type, as a sentence has them.
pub fn media_types() -> String {
    Format::ALL.iter().map(|format| media_type(*format)).collect::<Vec<_>>().join(", ")
}

/// The schema of `?format=`.
pub fn schema() -> Schema {
    one_of(Format::names(), "The format; without it, the one that `Accept` prefers, or plain text.")
}

/// The schema of `?tables=`.
pub fn tables_schema() -> Schema {
    let names = TableStyle::NAMES.iter().copied();
    one_of(
        names,
        "Tables in Markdown and chunks: as Markdown (the default), as HTML, or `auto`: HTML where Markdown can't hold the table.",
    )
}

/// The bodies of a result, for the OpenAPI document.
pub fn contents() -> impl Iterator<Item = (&'static str, Content)> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    Format::ALL.iter().map(move |format| {
        let schema: RefOr<Schema> = match (format, media_type(*format)) {
            (Format::Json, _) => Ref::from_schema_name(ResultDocument::name()).into(),
            (_, media_type) if media_type.starts_with("text/") => text().into(),
            _ => text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))).into(),
        };
        (media_type(*format), ContentBuilder::new().schema(Some(schema)).build())
    })
}

/// The format that an `Accept` header prefers; `None` when it accepts none.
pub fn negotiate(accept: &str) -> Option<Format> {
    let mut best: Option<(Format, f32)> = None;
    for format in Format::ALL {
        let weight = weight(accept, media_type(*format));
        if weight > best.map_or(0.0, |(_, weight)| weight) {
            best = Some((*format, weight));
        }
    }
    best.map(|(format, _)| format)
}

/// The quality of a media type, from the most specific range of the header that includes it.
fn weight(accept: &str, media_type: &str) -> f32 {
    let kind = media_type.split('/').next().unwrap_or_default();
    let mut found = (0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let specificity = match range.strip_suffix("/*") {
            Some("*") => 1,
            Some(of_kind) if of_kind == kind => 2,
            None if range == media_type => 3,
            _ => continue,
        };
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
        if specificity > found.0 {
            found = (specificity, quality);
        }
    }
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_format_is_negotiated() {
        for (accept, format) in [
            ("*/*", Some(Format::Text)),
            ("application/json", Some(Format::Json)),
            ("text/markdown, text/plain;q=0.5", Some(Format::Markdown)),
            ("text/*;q=0.2, application/json;q=0.3", Some(Format::Json)),
            ("text/plain;q=0, */*", Some(Format::Markdown)),
            ("image/png", None),
            ("", None),
            (";;q=,/", None),
        ] {
            assert_eq!(negotiate(accept), format, "{accept}");
        }
    }

    #[test]
    fn every_name_is_accepted_as_a_query_value() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
    }
}
