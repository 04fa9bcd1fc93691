//! JSON: the stored original. The other formats are rendered from it.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::{Make, Spec};
use crate::{document::TableStyle, finish::result::ResultDocument};

pub const SPEC: Spec = Spec {
    names: &["json"],
    extension: "json",
    mime: "application/json",
    make: Make::Stored(render),
    has_table_styles: false,
};

pub(super) fn render(document: &ResultDocument, _: TableStyle) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Lines::default());
    document.serialize(&mut serializer).expect("a result has only string keys");
    out
}

/// How deep the document is indented: document, pages, page, blocks. A block is one line, since a page has
/// hundreds of numbers in boxes.
const MAX_DEPTH: u32 = 4;

#[derive(Default)]
struct Lines {
    pretty: PrettyFormatter<'static>,
    depth: u32,
}

impl Lines {
    fn is_deep(&self) -> bool {
        self.depth > MAX_DEPTH
    }
}

impl Formatter for Lines {
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.is_deep() { writer.write_all(b"[") } else { self.pretty.begin_array(writer) }
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= MAX_DEPTH { writer.write_all(b"]") } else { self.pretty.end_array(writer) }
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (self.is_deep(), first) {
            (true, true) => Ok(()),
            (true, false) => writer.write_all(b","),
            (false, first) => self.pretty.begin_array_value(writer, first),
        }
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.is_deep() { Ok(()) } else { self.pretty.end_array_value(writer) }
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.is_deep() { writer.write_all(b"{") } else { self.pretty.begin_object(writer) }
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= MAX_DEPTH { writer.write_all(b"}") } else { self.pretty.end_object(writer) }
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (self.is_deep(), first) {
            (true, true) => Ok(()),
            (true, false) => writer.write_all(b","),
            (false, first) => self.pretty.begin_object_key(writer, first),
        }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.is_deep() { writer.write_all(b":") } else { self.pretty.begin_object_value(writer) }
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.is_deep() { Ok(()) } else { self.pretty.end_object_value(writer) }
    }
}
