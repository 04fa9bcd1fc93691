//! Headings and their levels, from the size and weight of the whole document's text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Block, BlockKind, PageBlocks, furniture::Furniture};

/// A heading is at least this much larger than the text, in percent, if nothing else marks it.
const MIN_LARGER_PERCENT: u32 = 118;
/// Where headings are tagged, only a text this large is another one, in percent.
const MIN_TITLE_PERCENT: u32 = 140;
const MAX_HEADING_CHARACTERS: usize = 180;
const MAX_HEADING_LINES: u16 = 4;
/// A document in which more of the text is tagged as heading is tagged wrongly.
const MAX_TAGGED_PERCENT: usize = 30;
/// Sizes that differ by less, in tenths of a point, are one style.
const SIZE_STEP: u16 = 6;

/// Sections that have no number and often no style of their own.
const NAMES: [&str; 22] = [
    "abstract",
    "introduction",
    "references",
    "bibliography",
    "acknowledgements",
    "acknowledgments",
    "acknowledgement",
    "acknowledgment",
    "conclusion",
    "conclusions",
    "contents",
    "table of contents",
    "appendix",
    "summary",
    "discussion",
    "results",
    "methods",
    "literature",
    "executive summary",
    "background",
    "related work",
    "glossary",
];

/// The look of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Look {
    size: u16,
    bold: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Headings {
    /// Size of most of the text, in tenths of a point.
    body: u16,
    /// Most of the text is bold, so that bold marks nothing.
    #[serde(default)]
    is_body_bold: bool,
    /// What is tagged as a heading is one.
    #[serde(default)]
    trusts_tags: bool,
    /// What is not tagged as a heading is none.
    #[serde(default)]
    has_all_tags: bool,
    /// Level of each look.
    levels: Vec<(Look, u8)>,
    /// Level of a heading numbered `1`; deeper numbers are below.
    #[serde(default)]
    numbered_from: u8,
}

impl Headings {
    pub fn of(pages: &[PageBlocks<'_>], furniture: &Furniture) -> Self {
        let mut blocks: Vec<(u32, &Block)> = Vec::new();
        for page in pages {
            let taken: BTreeSet<usize> =
                furniture.kinds(page.page, page.blocks).map(|(index, _)| index).collect();
            let kept = page.blocks.iter().enumerate().filter(|(index, _)| !taken.contains(index));
            blocks.extend(kept.map(|(_, block)| (page.number, block)));
        }
        let mut headings = Self { numbered_from: 1, ..Self::default() };
        let mut sizes: BTreeMap<u16, usize> = BTreeMap::new();
        let (mut bold, mut tagged, mut all) = (0, 0, 0);
        for (_, block) in &blocks {
            let length = block.text.len();
            if matches!(block.kind, BlockKind::Paragraph | BlockKind::ListItem | BlockKind::Heading)
                && block.table.is_none()
            {
                *sizes.entry(block.style.size / 5 * 5).or_default() += length;
                all += length;
                bold += if block.style.bold { length } else { 0 };
                tagged += if block.kind == BlockKind::Heading { length } else { 0 };
            }
        }
        headings.body = sizes.iter().max_by_key(|(_, length)| **length).map_or(100, |(size, _)| *size);
        headings.is_body_bold = bold * 2 > all;
        headings.trusts_tags = tagged > 0 && tagged * 100 <= all * MAX_TAGGED_PERCENT;
        let (tagged, others): (Vec<&Block>, Vec<&Block>) = blocks
            .iter()
            .map(|(_, block)| *block)
            .filter(|block| headings.is_heading(block))
            .partition(|block| block.tagged);
        // Some authors tag a title and nothing else.
        let strong = others.iter().filter(|block| headings.is_prominent(block)).count();
        headings.has_all_tags = headings.trusts_tags && tagged.len() >= 2 && tagged.len() * 2 >= strong;
        headings.rank(&blocks);
        headings
    }

    /// Gives levels to the looks of all headings: by numbering where there is one, else by size and weight.
    fn rank(&mut self, blocks: &[(u32, &Block)]) {
        let found: Vec<(u32, &Block)> =
            blocks.iter().copied().filter(|(_, block)| self.is_heading(block)).collect();
        let mut looks: BTreeMap<Look, (usize, BTreeMap<u8, usize>, bool)> = BTreeMap::new();
        let first_page = blocks.first().map_or(0, |(page, _)| *page);
        for (page, block) in &found {
            let look = looks.entry(look(block)).or_insert((0, BTreeMap::new(), true));
            look.0 += 1;
            look.2 &= *page == first_page;
            if let Some(depth) = numbering(&block.text) {
                *look.1.entry(depth).or_default() += 1;
            }
        }
        // From the most to the least prominent, sizes that hardly differ as one.
        let mut ordered: Vec<(Look, usize, Option<u8>, bool)> = looks
            .into_iter()
            .map(|(look, (count, depths, is_first))| {
                let depth = depths.iter().max_by_key(|(_, count)| **count).map(|(depth, _)| *depth);
                (look, count, depth, is_first)
            })
            .collect();
        ordered.sort_by_key(|(look, ..)| std::cmp::Reverse(*look));
        // A title is larger than all others and only on the first page.
        let top_numbered =
            ordered.iter().filter(|(.., depth, _)| *depth == Some(1)).map(|(look, ..)| look.size).max();
        let has_title = ordered.first().is_some_and(|(look, count, depth, is_first)| {
            *is_first && *count <= 2 && depth.is_none() && top_numbered.is_none_or(|size| look.size > size)
        });
        self.numbered_from = if has_title && top_numbered.is_some() { 2 } else { 1 };
        let mut level: u8 = 0;
        let mut last: Option<Look> = None;
        for (look, _, depth, _) in ordered {
            let is_same =
                last.is_some_and(|last| last.bold == look.bold && last.size - look.size < SIZE_STEP);
            if !is_same {
                level = level.saturating_add(1);
            }
            if let Some(depth) = depth {
                level = level.max(self.numbered_from + depth - 1).min(self.numbered_from + depth - 1);
            }
            self.levels.push((look, level.clamp(1, 6)));
            last = Some(look);
        }
    }

    pub fn apply(&self, block: &mut Block) {
        if !self.is_heading(block) {
            if block.kind == BlockKind::Heading {
                block.kind = BlockKind::Paragraph;
                block.level = None;
            }
            return;
        }
        if block.kind == BlockKind::Heading && block.tagged && block.level.is_some() {
            return;
        }
        let by_number = numbering(&block.text).map(|depth| (self.numbered_from + depth - 1).min(6));
        let look = look(block);
        let by_look = self.levels.iter().find(|(other, _)| *other == look).map(|(_, level)| *level);
        block.kind = BlockKind::Heading;
        block.level = Some(by_number.or(by_look).unwrap_or(2).clamp(1, 6));
        block.text = block.text.replace('\n', " ");
    }

    /// Whether a heading is marked by its size or number, not only by its weight.
    fn is_prominent(&self, block: &Block) -> bool {
        let percent = u32::from(block.style.size) * 100 / u32::from(self.body.max(1));
        percent >= MIN_LARGER_PERCENT || (block.style.bold && numbering(&block.text).is_some())
    }

    fn is_heading(&self, block: &Block) -> bool {
        let style = block.style;
        let text = block.text.trim();
        if block.kind == BlockKind::Heading && block.tagged {
            return self.trusts_tags && !text.is_empty();
        }
        if !matches!(block.kind, BlockKind::Paragraph | BlockKind::ListItem | BlockKind::Heading) {
            return false;
        }
        let characters = text.chars().count();
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        if characters > MAX_HEADING_CHARACTERS
            || style.lines > MAX_HEADING_LINES
            || letters < 2
            || letters * 2 < characters
        {
            return false;
        }
        let words = text.split_whitespace().count();
        let depth = numbering(text);
        let starts_well = !text.starts_with(|c: char| c.is_lowercase()) && !starts_with_bullet(text);
        let ends_well =
            !text.ends_with([',', ';', '.']) || (text.ends_with('.') && words <= 6 && depth.is_some());
        if !starts_well || !ends_well || text.contains("....") || text.contains('@') || text.contains("://") {
            return false;
        }
        let percent = u32::from(style.size) * 100 / u32::from(self.body.max(1));
        let is_bold = style.bold && !self.is_body_bold;
        let is_capital =
            letters >= 4 && text.chars().filter(|c| c.is_alphabetic()).all(|c| !c.is_lowercase());
        let name =
            text.trim_start_matches(|c: char| !c.is_alphabetic()).trim_end_matches([':', '.']).to_lowercase();
        let is_named = NAMES.contains(&name.as_str());
        if is_named && style.lines == 1 && percent >= 90 {
            return true;
        }
        let is_larger = percent >= MIN_LARGER_PERCENT && words <= 26;
        let is_emphasized = is_bold
            && percent >= 95
            && style.lines <= 2
            && words <= 16
            && (!text.ends_with(':') || (words <= 6 && style.lines == 1));
        let is_numbered = depth.is_some_and(|depth| {
            let is_marked = is_bold || is_capital || style.italic || percent >= 104;
            (2..=16).contains(&words)
                && style.lines <= 2
                && ((is_marked && percent >= 88)
                    || (is_capital && percent >= 72)
                    || depth >= 2 && words <= 8 && style.lines == 1)
        });
        let is_caps = is_capital
            && percent >= 96
            && style.lines <= 2
            && (1..=10).contains(&words)
            && letters >= 6
            && !text.ends_with(':');
        if self.has_all_tags {
            // The author marked the headings; only a title is often left out.
            return percent >= MIN_TITLE_PERCENT && words <= 26;
        }
        is_larger || is_emphasized || is_numbered || is_caps
    }
}

fn look(block: &Block) -> Look {
    Look { size: block.style.size, bold: block.style.bold }
}

fn starts_with_bullet(text: &str) -> bool {
    text.starts_with(['•', '◦', '▪', '■', '●', '○', '–', '—', '-', '*', '·', '☐', '☒', '†', '‡', '('])
}

/// The depth of a section's number: 1 for `3 Method` and `IV. Results`, 2 for `3.1 Data`, 1 for `Chapter 2`.
fn numbering(text: &str) -> Option<u8> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let second = words.next()?;
    let number = first.trim_end_matches(['.', ')', ':']);
    if matches!(
        first.to_lowercase().as_str(),
        "chapter" | "section" | "part" | "appendix" | "kapitel" | "chapitre" | "annex"
    ) {
        return second.starts_with(|c: char| c.is_ascii_digit() || c.is_uppercase()).then_some(1);
    }
    if !second.starts_with(|c: char| c.is_alphabetic() || "\"'“‘(".contains(c)) {
        return None;
    }
    let parts: Vec<&str> = number.split('.').collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit());
    let is_letter = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_uppercase());
    let is_roman = number.len() <= 5 && !number.is_empty() && number.chars().all(|c| "IVX".contains(c));
    if parts.len() <= 5 && parts.iter().all(is_number) {
        return u8::try_from(parts.len()).ok();
    }
    if parts.len() >= 2 && parts.len() <= 5 && is_letter(parts[0]) && parts[1..].iter().all(is_number) {
        return u8::try_from(parts.len()).ok();
    }
    if is_roman && first.ends_with('.') {
        return Some(1);
    }
    (is_letter(number) && first.ends_with(['.', ')'])).then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{BlockStyle, PageBox, structure::Findings};

    fn block(size: u16, bold: bool, text: &str) -> Block {
        let style = BlockStyle { size, bold, italic: false, lines: 1 };
        Block { area: PageBox([50, 300, 500, 312]), text: text.into(), style, ..Block::default() }
    }

    fn levels(blocks: Vec<Block>) -> Vec<Option<u8>> {
        let page = PageBox([0, 0, 600, 800]);
        let mut blocks = blocks;
        blocks.push(Block {
            style: BlockStyle { lines: 9, ..blocks[0].style },
            ..block(100, false, &"The body of the text. ".repeat(40))
        });
        if let Some(body) = blocks.last_mut() {
            body.style.size = 100;
            body.style.bold = false;
        }
        let findings = Findings::of(&[PageBlocks { number: 1, page, blocks: &blocks, images: &[] }]);
        findings.apply(1, page, &mut blocks);
        blocks.pop();
        blocks.iter().map(|block| block.level.filter(|_| block.kind == BlockKind::Heading)).collect()
    }

    #[test]
    fn levels_follow_numbers_below_a_title() {
        let found = levels(vec![
            block(180, true, "A Study of Things"),
            block(120, true, "1 Introduction"),
            block(100, true, "1.1 Scope"),
            block(120, true, "References"),
            block(100, false, "Plain words that are a sentence"),
        ]);
        assert_eq!(found, [Some(1), Some(2), Some(3), Some(2), None]);
    }

    #[test]
    fn without_numbers_size_decides() {
        let found = levels(vec![
            block(240, false, "Title"),
            block(160, false, "Part"),
            block(160, false, "Another part"),
            block(100, true, "A bold line"),
            block(100, true, "A bold sentence that ends."),
        ]);
        assert_eq!(found, [Some(1), Some(2), Some(2), Some(3), None]);
    }

    #[test]
    fn numbers_of_sections_have_a_depth() {
        for (text, depth) in [
            ("3 Method", Some(1)),
            ("3.1 Data and code", Some(2)),
            ("IV. RESULTS", Some(1)),
            ("A.2 Proofs", Some(2)),
            ("Chapter 2", Some(1)),
            ("2019 was a year", None),
            ("3 4 5", None),
            ("Method", None),
        ] {
            assert_eq!(numbering(text), depth, "{text}");
        }
    }
}
