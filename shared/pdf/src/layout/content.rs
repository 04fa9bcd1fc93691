//! The content of a page, as the layout takes it: letters with their boxes, lines, boxes and pictures.
//!
//! Made from MuPDF by `page::content`, or by hand in tests.

use crate::page::{Area, Cluster};

/// How glyphs of one font are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FontStyle {
    pub bold: bool,
    pub italic: bool,
    pub mono: bool,
}

/// The direction in which a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    #[default]
    Right,
    Down,
    Left,
    Up,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Glyph {
    pub c: char,
    pub area: Area,
    /// The baseline's distance from the top of the page (once the page is upright).
    pub baseline: f32,
    pub size: f32,
    /// A space that the parser added in a gap; the layout decides for itself.
    pub is_synthetic: bool,
    pub style: FontStyle,
}

/// Glyphs that the parser found on one baseline, in logical order.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlyphLine {
    pub glyphs: Vec<Glyph>,
    pub direction: Direction,
}

/// The role that the PDF's tags give to a run of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TagRole {
    Heading(u8),
    Paragraph,
    ListItem,
    Caption,
    Note,
    Figure,
    /// A cell of the table `table`, in its row `row`; the numbers identify structure elements.
    Cell {
        table: u32,
        row: u32,
        /// Tagged as one that names its row or column.
        is_head: bool,
    },
}

/// A run of text and the structure element around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaggedRun {
    pub area: Area,
    pub role: TagRole,
    /// Identifies the structure element on its page.
    pub element: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    /// A password, which is not read even if it is painted.
    Secret,
    /// A check box or a radio button.
    Mark {
        is_on: bool,
    },
}

/// A field of a form.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub area: Area,
    pub kind: FieldKind,
    /// What a text field holds; it is usually painted on the page too.
    pub value: String,
    /// The tooltip; empty without one.
    pub label: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PageContent {
    pub page: Area,
    pub lines: Vec<GlyphLine>,
    /// Thin horizontal and vertical lines.
    pub rules: Vec<Area>,
    /// Filled rectangles that are visible.
    pub fills: Vec<Area>,
    pub images: Vec<Area>,
    /// Small slanted or curved drawings, some of which are check marks.
    pub marks: Vec<Area>,
    /// Clusters of lines and curves, some of which are figures.
    pub clusters: Vec<Cluster>,
    pub tags: Vec<TaggedRun>,
    pub fields: Vec<Field>,
}
