//! The blocks of a page: headings, paragraphs, tables and the rest, in reading order.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The role of a block on its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    Heading,
    #[default]
    Paragraph,
    ListItem,
    Table,
    Code,
    /// The text that names a figure or a table.
    Caption,
    Footnote,
    /// An image or a drawing; `text` holds its labels.
    Figure,
    /// Repeats at the top of pages.
    PageHeader,
    /// Repeats at the bottom of pages.
    PageFooter,
    PageNumber,
    /// Numbers of lines in a margin, or other text that runs along the edge of a page.
    Margin,
}

impl BlockKind {
    /// Whether the block belongs to the page and not to the text: kept in JSON only.
    pub fn is_furniture(self) -> bool {
        matches!(self, Self::PageHeader | Self::PageFooter | Self::PageNumber | Self::Margin)
    }
}

/// A rectangle in whole points from the upper left corner of the page: left, top, right, bottom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(value_type = Vec<i32>, min_items = 4, max_items = 4)]
pub struct PageBox(pub [i32; 4]);

impl PageBox {
    pub fn is_empty(&self) -> bool {
        self.width() == 0 || self.height() == 0
    }
    pub fn left(self) -> i32 {
        self.0[0]
    }
    pub fn top(self) -> i32 {
        self.0[1]
    }
    pub fn right(self) -> i32 {
        self.0[2]
    }
    pub fn bottom(self) -> i32 {
        self.0[3]
    }
    pub fn width(self) -> i32 {
        self.right().saturating_sub(self.left()).max(0)
    }
    pub fn height(self) -> i32 {
        self.bottom().saturating_sub(self.top()).max(0)
    }
}

/// How most of a block's text is set. Heading levels are decided from it, over the whole document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct BlockStyle {
    /// Font size in tenths of a point.
    pub size: u16,
    #[serde(default, skip_serializing_if = "is_false")]
    pub bold: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub italic: bool,
    /// Number of lines on the page.
    pub lines: u16,
}

/// One cell of a table. Cells that a span covers are present and empty, so that every row has the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TableCell)]
pub struct Cell {
    pub text: String,
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub area: Option<PageBox>,
    /// Columns that the cell spans.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub columns: u16,
    /// Rows that the cell spans.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rows: u16,
}

/// The cells of a table, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Table {
    pub rows: Vec<Vec<Cell>>,
    /// Number of leading rows that name the columns.
    #[serde(default)]
    pub header_rows: u16,
    /// Continues the last table of the page before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continued: bool,
}

/// A part of a page with one role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Block {
    pub kind: BlockKind,
    /// Level of a heading, 1 to 6; depth of a list item, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    #[serde(rename = "box")]
    pub area: PageBox,
    /// Plain text; lines of a paragraph are joined. Empty for a table, whose cells hold it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    #[serde(default)]
    pub style: BlockStyle,
    /// The role comes from the tags of the PDF and was found plausible.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tagged: bool,
}

impl Block {
    /// Appends the block's text as plain text: a table as rows of cells, separated by tabs.
    pub fn write_text(&self, out: &mut String) {
        match &self.table {
            None => out.push_str(&with_marks(&self.text)),
            Some(table) => {
                for (index, row) in table.rows.iter().enumerate() {
                    if index > 0 {
                        out.push('\n');
                    }
                    let start = out.len();
                    for (column, cell) in row.iter().enumerate() {
                        if column > 0 {
                            out.push('\t');
                        }
                        out.push_str(&with_marks(&cell.text).replace('\n', " "));
                    }
                    out.truncate(start + out[start..].trim_end_matches('\t').len());
                }
            }
        }
    }
}

/// The text with check boxes as `[ ]` and `[x]`.
pub(super) fn with_marks(text: &str) -> Cow<'_, str> {
    if !text.contains(['☐', '☒', '☑']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('☐', "[ ]").replace(['☒', '☑'], "[x]"))
}

/// The text of a page from its blocks, without page headers, footers and numbers.
pub fn plain_text(blocks: &[Block]) -> String {
    let mut out = String::new();
    let mut last: Option<&Block> = None;
    for block in blocks.iter().filter(|block| !block.kind.is_furniture()) {
        let start = out.len();
        if let Some(last) = last {
            let in_list = last.kind == BlockKind::ListItem && block.kind == BlockKind::ListItem;
            out.push_str(if in_list { "\n" } else { "\n\n" });
        }
        let text = out.len();
        block.write_text(&mut out);
        if out.len() == text {
            out.truncate(start);
        } else {
            last = Some(block);
        }
    }
    out
}

fn is_false(value: &bool) -> bool {
    !value
}

fn one() -> u16 {
    1
}

fn is_one(value: &u16) -> bool {
    *value == 1
}
