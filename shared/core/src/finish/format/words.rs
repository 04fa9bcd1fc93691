//! The words of pages that OCR read, with their places: JSON lines, one for each page.

use serde::Serialize;

use super::{Make, Spec};
use crate::{
    document::PageWord,
    finish::result::{PageResult, ResultDocument},
    ids::PageNumber,
    source::Source,
};

pub const SPEC: Spec = Spec {
    names: &["words"],
    extension: "words.jsonl",
    mime: "application/jsonl",
    make: Make::FromWords(render),
    has_table_styles: false,
};

#[derive(Serialize)]
struct Line<'a> {
    document: &'a str,
    document_sha256: &'a str,
    page: PageNumber,
    /// Of the page's text in the result, which may be a model's; the words are always those of OCR.
    source: Source,
    words: &'a [PageWord],
}

fn render(document: &ResultDocument, pages: &[(&PageResult, Vec<PageWord>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (page, words) in pages.iter().filter(|(_, words)| !words.is_empty()) {
        let line = Line {
            document: &document.document,
            document_sha256: &document.document_sha256,
            page: page.page,
            source: page.source,
            words,
        };
        // A line has only strings and numbers.
        if serde_json::to_writer(&mut out, &line).is_ok() {
            out.push(b'\n');
        }
    }
    out
}
