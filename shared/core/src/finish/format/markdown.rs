//! Markdown.

use std::fmt::Write;

use super::{Make, Spec};
use crate::{document::markdown, finish::result::ResultDocument};

pub const SPEC: Spec = Spec {
    names: &["markdown", "md"],
    extension: "md",
    mime: "text/markdown; charset=utf-8",
    make: Make::Stored(render),
};

/// Each page under an anchor `#page-N`, with the source of its text in a comment, and its status
/// in a provisional result.
fn render(document: &ResultDocument) -> Vec<u8> {
    let mut out = String::new();
    for (index, page) in document.pages.iter().enumerate() {
        if index > 0 {
            out.push_str("\n---\n\n");
        }
        let by = match (&page.read_by.provider, &page.read_by.model) {
            (Some(provider), Some(model)) => format!(", {provider}:{model}"),
            _ => String::new(),
        };
        let status = page.status.map(|status| format!(", {status}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "<a id=\"page-{0}\"></a>\n<!-- page {0}: {1}{by}{status} -->",
            page.page, page.source
        );
        // What an AI wrote is Markdown already; our own reading is rendered from its blocks.
        let text = if page.blocks.is_empty() { page.text.clone() } else { markdown(&page.blocks) };
        let text = if text.is_empty() { page.text.clone() } else { text };
        if !text.is_empty() {
            let _ = writeln!(out, "\n{text}");
        }
    }
    out.into_bytes()
}
