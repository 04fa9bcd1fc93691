//! Whole files, by the kind of attack.

mod actions;
mod bombs;
mod boxes;
mod counts;
mod cycles;
mod drawing;
mod encryption;
mod images;
mod nesting;
mod nothing;
mod pictures;
mod streams;
mod words;
mod xref;

use crate::{
    builder::{A4, File, Page, document, stream},
    dice::Dice,
};

/// Makes one kind of file.
pub(crate) struct Maker {
    pub name: &'static str,
    pub make: fn(&mut Dice) -> Vec<u8>,
    /// Expensive, or always the same: one is enough.
    pub once: bool,
}

const fn varied(name: &'static str, make: fn(&mut Dice) -> Vec<u8>) -> Maker {
    Maker { name, make, once: false }
}

const fn once(name: &'static str, make: fn(&mut Dice) -> Vec<u8>) -> Maker {
    Maker { name, make, once: true }
}

pub(crate) fn all() -> Vec<&'static Maker> {
    let families: [&'static [Maker]; 14] = [
        nothing::MAKERS,
        counts::MAKERS,
        boxes::MAKERS,
        xref::MAKERS,
        streams::MAKERS,
        cycles::MAKERS,
        nesting::MAKERS,
        bombs::MAKERS,
        drawing::MAKERS,
        images::MAKERS,
        pictures::MAKERS,
        words::MAKERS,
        actions::MAKERS,
        encryption::MAKERS,
    ];
    families.into_iter().flatten().collect()
}

/// A valid file with text, a picture, a scan and a drawing.
pub(crate) fn good_paper() -> Vec<u8> {
    document(&[
        Page::prose(1),
        Page::prose(2).image((150.0, 60.0, 300.0, 200.0)),
        Page::blank().image((0.0, 0.0, A4.0, A4.1)),
        Page::prose(4).draw("100 120 m 200 250 l 300 90 l 400 200 l S\n"),
    ])
}

/// A valid file whose objects and table are streams.
pub(crate) fn good_with_object_streams() -> Vec<u8> {
    xref::with_streams(&one_page("<< /Type /Pages /Kids [4 0 R] /Count 1 >>", ""))
}

/// Catalog, the given page tree, font, one page (4) with additional entries, its content (5).
fn one_page(tree: &str, page: &str) -> File {
    let mut file = File::default();
    file.object("<< /Type /Catalog /Pages 2 0 R >>");
    file.object(tree);
    file.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>");
    file.object(format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R \
         /Resources << /Font << /F1 3 0 R >> >> {page}>>"
    ));
    file.object(stream("", &Page::prose(1).content));
    file
}

const TREE: &str = "<< /Type /Pages /Kids [4 0 R] /Count 1 >>";

/// The page between two good ones.
fn among_good(page: Page) -> Vec<u8> {
    document(&[Page::prose(1), page, Page::prose(3)])
}
