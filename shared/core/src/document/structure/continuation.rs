//! Tables that continue on the next page.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Block, BlockKind, PageBlocks, furniture::Furniture};
use crate::document::Table;

/// Columns of a table and of its continuation begin at the same places, up to so many points.
const MAX_SHIFT_POINTS: i32 = 15;

/// Words of captions of continuations, in lower case.
const CONTINUED: [&str; 8] =
    ["continued", "cont.", "cont'd", "cont’d", "fortsetzung", "suite", "continuación", "continuação"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContinuedTables {
    /// Pages whose first table continues the last one of the page before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    continued_tables: BTreeSet<u32>,
    /// Those of them on which it repeats its head.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    repeated_heads: BTreeSet<u32>,
}

impl ContinuedTables {
    pub fn of(pages: &[PageBlocks<'_>], furniture: &Furniture) -> Self {
        let mut found = Self::default();
        // The last table of the page before, and the one with the head of its columns.
        let mut last: Option<(u32, &Table, &Table)> = None;
        for page in pages {
            let taken: BTreeSet<usize> =
                furniture.kinds(page.page, page.blocks).map(|(index, _)| index).collect();
            let content: Vec<&Block> = page
                .blocks
                .iter()
                .enumerate()
                .filter(|(index, block)| !taken.contains(index) && is_content(block))
                .map(|(_, block)| block)
                .collect();
            let first = content.first().and_then(|block| block.table.as_ref());
            let continues = match (last, first) {
                (Some((before, above, _)), Some(below)) => page.number == before + 1 && fits(above, below),
                _ => false,
            };
            let mut head = content.last().and_then(|block| block.table.as_ref());
            if let (true, Some((.., with_head)), Some(below)) = (continues, last, first) {
                found.continued_tables.insert(page.number);
                if repeats_head(with_head, below) {
                    found.repeated_heads.insert(page.number);
                }
                // A table over three pages has the head of the first.
                head = head.map(|table| if std::ptr::eq(table, below) { with_head } else { table });
            }
            let table = content.last().and_then(|block| block.table.as_ref());
            last = table.zip(head).map(|(table, head)| (page.number, table, head));
        }
        found
    }

    /// Marks the first table of a page as a continuation, whose first row is a head only if it repeats it.
    pub fn apply(&self, number: u32, blocks: &mut [Block]) {
        if self.continued_tables.contains(&number)
            && let Some(table) = blocks.iter_mut().find_map(|block| block.table.as_mut())
        {
            table.continued = true;
            if !self.repeated_heads.contains(&number) {
                table.header_rows = 0;
            }
        }
    }
}

/// Whether the block is between a table and its continuation only if it is none: footnotes are below the last row, and
/// a caption may say that the table continues.
fn is_content(block: &Block) -> bool {
    match block.kind {
        BlockKind::Margin | BlockKind::Footnote => false,
        BlockKind::Caption => !names_continuation(&block.text, 200),
        BlockKind::Paragraph => !names_continuation(&block.text, 40),
        _ => true,
    }
}

fn names_continuation(text: &str, max_characters: usize) -> bool {
    let text = text.to_lowercase();
    text.chars().count() <= max_characters && CONTINUED.iter().any(|word| text.contains(word))
}

/// Whether two tables have as many columns, and these begin at the same places where that is known.
fn fits(above: &Table, below: &Table) -> bool {
    let (above, below) = (lefts(above), lefts(below));
    let is_near = |pair: (&Option<i32>, &Option<i32>)| match pair {
        (Some(above), Some(below)) => (above - below).abs() <= MAX_SHIFT_POINTS,
        _ => true,
    };
    !above.is_empty() && above.len() == below.len() && above.iter().zip(&below).all(is_near)
}

/// Where each column begins.
fn lefts(table: &Table) -> Vec<Option<i32>> {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |column: usize| {
        let cells = table.rows.iter().filter_map(move |row| row.get(column)?.area);
        cells.map(|area| area.left()).min()
    };
    (0..columns).map(cell).collect()
}

/// Whether the first rows of a continuation are the head of the table.
fn repeats_head(table: &Table, continuation: &Table) -> bool {
    let rows = usize::from(table.header_rows).min(table.rows.len());
    let texts = |table: &Table| -> Vec<String> {
        let cells = table.rows.iter().take(rows).flatten();
        cells.map(|cell| cell.text.split_whitespace().collect::<String>().to_lowercase()).collect()
    };
    rows > 0 && texts(table) == texts(continuation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Cell, PageBox, structure::Findings};

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);

    fn table(left: i32, rows: &[[&str; 2]]) -> Block {
        let cell = |text: &str, column: i32| Cell {
            text: text.into(),
            area: Some(PageBox([left + 100 * column, 300, left + 100 * column + 60, 312])),
            columns: 1,
            rows: 1,
        };
        let row = |texts: &[&str; 2]| vec![cell(texts[0], 0), cell(texts[1], 1)];
        let table = Table { rows: rows.iter().map(row).collect(), header_rows: 1, continued: false };
        Block {
            kind: BlockKind::Table,
            area: PageBox([50, 300, 400, 400]),
            table: Some(table),
            ..Block::default()
        }
    }

    fn block(kind: BlockKind, top: i32, text: &str) -> Block {
        Block { kind, area: PageBox([50, top, 400, top + 12]), text: text.into(), ..Block::default() }
    }

    /// Whether the table of the second page continues, and its header rows.
    fn second(first: Vec<Block>, second: Vec<Block>) -> (bool, u16) {
        let pages = [first, second];
        let input: Vec<PageBlocks<'_>> = pages
            .iter()
            .zip(1..)
            .map(|(blocks, number)| PageBlocks { number, page: PAGE, blocks, images: &[] })
            .collect();
        let findings = Findings::of(&input);
        let mut blocks = pages[1].clone();
        findings.apply(2, PAGE, &mut blocks);
        findings.apply(2, PAGE, &mut blocks);
        let table = blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
        (table.continued, table.header_rows)
    }

    #[test]
    fn a_table_continues_past_footnotes_and_captions_that_say_so() {
        let head = ["Cargo", "Tonnes"];
        let above = || table(50, &[head, ["Grain", "640"]]);
        let below = || table(50, &[["Fish", "12"]]);
        let note = || block(BlockKind::Footnote, 600, "* estimated");
        let caption = |text: &str| block(BlockKind::Caption, 200, text);
        let text = || block(BlockKind::Paragraph, 250, "Something else.");
        for (name, first, next, expected) in [
            ("directly", vec![above()], vec![below()], (true, 0)),
            ("with its head", vec![above()], vec![table(50, &[head, ["Fish", "12"]])], (true, 1)),
            ("past a footnote", vec![above(), note()], vec![below()], (true, 0)),
            ("past a caption", vec![above()], vec![caption("Table 3 (continued)"), below()], (true, 0)),
            ("another caption", vec![above()], vec![caption("Table 4. Ships"), below()], (false, 1)),
            ("after text", vec![above(), text()], vec![below()], (false, 1)),
            ("at another place", vec![above()], vec![table(120, &[["Fish", "12"]])], (false, 1)),
        ] {
            assert_eq!(second(first, next), expected, "{name}");
        }
    }
}
