//! Blocks as Markdown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Block, BlockKind, Table, block::with_marks, html_table};

/// How tables are written in Markdown.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_style)]
pub enum TableStyle {
    /// As Markdown tables: a header row, no spans, one line per cell.
    #[default]
    Markdown,
    /// As HTML where a Markdown table can't hold it: spans, several header rows, line breaks.
    Auto,
    /// All as HTML.
    Html,
}

impl TableStyle {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
}

fn unknown_style(text: &str) -> String {
    format!("unknown style of tables {text:?} (accepted: {})", TableStyle::NAMES.join(", "))
}

/// The blocks of a page as Markdown, without page headers, footers and numbers.
pub fn markdown(blocks: &[Block], tables: TableStyle) -> String {
    let mut out = String::new();
    let mut last: Option<BlockKind> = None;
    for block in blocks.iter().filter(|block| !block.kind.is_furniture()) {
        let part = match (&block.table, block.kind) {
            (Some(table), _) => match tables {
                TableStyle::Html => html_table::write(table),
                TableStyle::Auto if html_table::is_needed(table) => html_table::write(table),
                TableStyle::Auto | TableStyle::Markdown => write_table(table),
            },
            (None, BlockKind::Heading) => heading(block),
            (None, BlockKind::ListItem) => list_item(block),
            (None, BlockKind::Code) => code(&block.text),
            (None, _) => paragraph(&block.text),
        };
        if part.is_empty() {
            continue;
        }
        if let Some(last) = last {
            let in_list = last == BlockKind::ListItem && block.kind == BlockKind::ListItem;
            out.push_str(if in_list { "\n" } else { "\n\n" });
        }
        out.push_str(&part);
        last = Some(block.kind);
    }
    out
}

fn heading(block: &Block) -> String {
    let text = one_line(&block.text);
    if text.is_empty() {
        return text;
    }
    let level = usize::from(block.level.unwrap_or(2).clamp(1, 6));
    format!("{} {text}", "#".repeat(level))
}

fn list_item(block: &Block) -> String {
    let indent = "  ".repeat(usize::from(block.level.unwrap_or(1).saturating_sub(1)));
    let text = one_line(&block.text);
    let mut characters = text.chars();
    let first = characters.next().unwrap_or(' ');
    let rest = characters.as_str().trim_start();
    if text.is_empty() {
        return text;
    }
    match first {
        '☐' => format!("{indent}- [ ] {}", with_marks(rest)),
        '☒' | '☑' => format!("{indent}- [x] {}", with_marks(rest)),
        first if !first.is_alphanumeric() && !matches!(first, '(' | '[' | '~' | '"' | '“') => {
            format!("{indent}- {rest}")
        }
        first if first.is_ascii_digit() => format!("{indent}{text}"),
        _ => format!("{indent}- {text}"),
    }
}

fn code(text: &str) -> String {
    let fence = if text.contains("```") { "~~~~" } else { "```" };
    format!("{fence}\n{text}\n{fence}")
}

/// A line break in a paragraph is kept as one.
fn paragraph(text: &str) -> String {
    let lines: Vec<String> = text.trim().lines().map(escaped).collect();
    lines.join("  \n")
}

/// Escapes what would make a heading, a list or a quotation of a plain line.
fn escaped(line: &str) -> String {
    let line = line.trim();
    let line = &with_marks(line);
    let is_special = line.starts_with('#')
        || line.starts_with('>')
        || ["- ", "* ", "+ "].iter().any(|start| line.starts_with(start));
    if is_special { format!("\\{line}") } else { line.to_string() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every row has the columns of the widest; the first row is the header, which Markdown asks for.
fn write_table(table: &Table) -> String {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    if columns == 0 {
        return String::new();
    }
    let mut out = String::new();
    for (index, row) in table.rows.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push('|');
        for column in 0..columns {
            let text = row
                .get(column)
                .map(|cell| with_marks(&one_line(&cell.text)).replace('|', "\\|"))
                .unwrap_or_default();
            out.push(' ');
            out.push_str(&text);
            out.push_str(if text.is_empty() { "|" } else { " |" });
        }
        if index == 0 {
            out.push_str("\n|");
            out.push_str(&" --- |".repeat(columns));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    fn block(kind: BlockKind, level: Option<u8>, text: &str) -> Block {
        Block { kind, level, text: text.into(), ..Block::default() }
    }

    #[test]
    fn blocks_become_markdown() {
        let cell = |text: &str| Cell { text: text.into(), ..Cell::default() };
        let table =
            Table { rows: vec![vec![cell("a"), cell("b|c")], vec![cell("1"), cell("")]], ..Table::default() };
        let blocks = [
            block(BlockKind::PageHeader, None, "Report"),
            block(BlockKind::Heading, Some(2), "Part one"),
            block(BlockKind::Paragraph, None, "# of items\nsecond line"),
            block(BlockKind::ListItem, Some(1), "• one"),
            block(BlockKind::ListItem, Some(2), "2. two"),
            block(BlockKind::ListItem, Some(1), "☒ done"),
            block(BlockKind::Paragraph, None, "Member: ☐ yes ☑ no"),
            Block { table: Some(table), kind: BlockKind::Table, ..Block::default() },
            block(BlockKind::Code, None, "let x = 1;"),
        ];
        let expected = "## Part one\n\n\\# of items  \nsecond line\n\n- one\n  2. two\n- [x] done\n\nMember: [ ] yes [x] no\n\n| a | b\\|c |\n| --- | --- |\n\
            | 1 | |\n\n```\nlet x = 1;\n```";
        assert_eq!(markdown(&blocks, TableStyle::Markdown), expected);
    }

    #[test]
    fn html_is_used_where_it_is_asked_for_or_needed() {
        let cell = |text: &str| Cell { text: text.into(), columns: 1, rows: 1, ..Cell::default() };
        let wide = Cell { columns: 2, ..cell("both") };
        let table = |rows| Table { rows, header_rows: 1, ..Table::default() };
        let block = |table| Block { table: Some(table), kind: BlockKind::Table, ..Block::default() };
        let plain = [block(table(vec![vec![cell("a"), cell("b")]]))];
        let spanning = [block(table(vec![vec![wide, cell("")], vec![cell("1"), cell("2")]]))];
        for (blocks, style, is_html) in [
            (&plain, TableStyle::Markdown, false),
            (&plain, TableStyle::Auto, false),
            (&plain, TableStyle::Html, true),
            (&spanning, TableStyle::Markdown, false),
            (&spanning, TableStyle::Auto, true),
            (&spanning, TableStyle::Html, true),
        ] {
            let text = markdown(blocks, style);
            assert_eq!(text.starts_with("<table>"), is_html, "{style}: {text}");
            assert_eq!(text.contains("| --- | --- |"), !is_html, "{style}: {text}");
        }
        assert!("tabs".parse::<TableStyle>().unwrap_err().contains("markdown, auto, html"));
    }
}
