//! Markdown.

use std::fmt::Write;

use super::{Make, Spec};
use crate::{
    document::{TableStyle, markdown, with_html_tables},
    finish::result::{PageResult, ResultDocument},
};

pub const SPEC: Spec = Spec {
    names: &["markdown", "md"],
    extension: "md",
    mime: "text/markdown; charset=utf-8",
    make: Make::Stored(render),
    has_table_styles: true,
};

/// Each page under an anchor `#page-N`, with the source of its text in a comment, and its status
/// in a provisional result.
fn render(document: &ResultDocument, tables: TableStyle) -> Vec<u8> {
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
        let text = page_text(page, tables);
        if !text.is_empty() {
            let _ = writeln!(out, "\n{text}");
        }
    }
    out.into_bytes()
}

/// Our own reading is rendered from its blocks; what an AI wrote is Markdown already.
fn page_text(page: &PageResult, tables: TableStyle) -> String {
    let text = markdown(&page.blocks, tables);
    match tables {
        _ if !text.is_empty() => text,
        TableStyle::Html => with_html_tables(&page.text),
        TableStyle::Markdown | TableStyle::Auto => page.text.clone(),
    }
}
