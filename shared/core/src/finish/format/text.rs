//! Plain text.

use std::fmt::Write;

use super::{Make, Spec};
use crate::{document::TableStyle, finish::result::ResultDocument};

pub const SPEC: Spec = Spec {
    names: &["text", "txt"],
    extension: "txt",
    mime: "text/plain; charset=utf-8",
    make: Make::Stored(render),
    has_table_styles: false,
};

/// `=== Page N ===` before each page, a blank line between.
fn render(document: &ResultDocument, _: TableStyle) -> Vec<u8> {
    let mut out = String::new();
    for (index, page) in document.pages.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let _ = writeln!(out, "=== Page {} ===", page.page);
        if !page.text.is_empty() {
            let _ = writeln!(out, "{}", page.text);
        }
    }
    out.into_bytes()
}
