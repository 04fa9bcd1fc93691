//! The structure of a whole document: what needs more than one page to be seen.
//!
//! Running headers and footers are known by their repetition, headings by what the rest of the text looks like. A
//! first pass over the pages gives [`Findings`], which are small and can be stored; [`Findings::apply`] then
//! completes each page by itself.

mod furniture;
mod headings;
mod images;
mod languages;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Block, BlockKind, PageBox};

use furniture::Furniture;
use headings::Headings;
use images::RepeatedImages;

/// The blocks of one page, as the first pass needs them.
#[derive(Clone, Copy, Debug)]
pub struct PageBlocks<'a> {
    pub number: u32,
    pub page: PageBox,
    pub blocks: &'a [Block],
    /// Where images are.
    pub images: &'a [PageBox],
}

/// What the pages of a document have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    furniture: Furniture,
    headings: Headings,
    /// Pages whose first table continues the last one of the page before.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    continued_tables: BTreeSet<u32>,
    #[serde(default)]
    images: RepeatedImages,
    /// What its text is written in, as names of Tesseract's data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    languages: Vec<String>,
}

impl Findings {
    pub fn of(pages: &[PageBlocks<'_>]) -> Self {
        let furniture = Furniture::of(pages);
        let headings = Headings::of(pages, &furniture);
        let continued_tables = continued_tables(pages, &furniture);
        let images = RepeatedImages::of(pages);
        Self { furniture, headings, continued_tables, images, languages: vec![] }
    }

    /// Adds the languages that the text of the pages is written in.
    pub fn with_languages_of<'a>(self, texts: impl Iterator<Item = &'a str>) -> Self {
        Self { languages: languages::languages_of(texts), ..self }
    }

    /// The languages that the text is written in, as names of Tesseract's data, the most frequent first.
    pub fn languages(&self) -> &[String] {
        &self.languages
    }

    /// Whether the images of a page are on most pages, or small.
    pub fn are_repeated(&self, page: PageBox, images: &[PageBox]) -> bool {
        self.images.explain(page, images)
    }

    /// Gives the blocks of a page their final kinds and levels. Applying it twice changes nothing more.
    pub fn apply(&self, number: u32, page: PageBox, blocks: &mut [Block]) {
        let furniture: Vec<(usize, BlockKind)> = self.furniture.kinds(page, blocks).collect();
        // A page that has nothing else keeps it: no page loses all of its text.
        let is_taken = |index: usize| furniture.iter().any(|(taken, _)| *taken == index);
        let has_more = blocks.iter().enumerate().any(|(index, block)| {
            !is_taken(index) && (!block.text.trim().is_empty() || block.table.is_some())
        });
        if has_more {
            for (index, kind) in furniture {
                blocks[index].kind = kind;
                blocks[index].level = None;
            }
        }
        for block in blocks.iter_mut() {
            self.headings.apply(block);
        }
        if self.continued_tables.contains(&number)
            && let Some(table) = blocks.iter_mut().find_map(|block| block.table.as_mut())
        {
            table.continued = true;
        }
    }
}

/// Pages that start with a table of as many columns as the one at the end of the page before.
fn continued_tables(pages: &[PageBlocks<'_>], furniture: &Furniture) -> BTreeSet<u32> {
    let columns = |block: Option<&Block>| Some(block?.table.as_ref()?.rows.first()?.len());
    let mut continued = BTreeSet::new();
    let mut last: Option<(u32, usize)> = None;
    for page in pages {
        let taken: BTreeSet<usize> =
            furniture.kinds(page.page, page.blocks).map(|(index, _)| index).collect();
        let content = || {
            let kept = page.blocks.iter().enumerate().filter(|(index, _)| !taken.contains(index));
            kept.map(|(_, block)| block).filter(|block| block.kind != BlockKind::Margin)
        };
        if let (Some((before, above)), Some(below)) = (last, columns(content().next()))
            && page.number == before + 1
            && above == below
        {
            continued.insert(page.number);
        }
        last = columns(content().next_back()).map(|columns| (page.number, columns));
    }
    continued
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);

    fn block(top: i32, text: &str) -> Block {
        Block { area: PageBox([50, top, 550, top + 12]), text: text.to_owned(), ..Block::default() }
    }

    /// The kinds of the blocks of the first page of several that have these.
    fn kinds(blocks: &[Block]) -> Vec<BlockKind> {
        let pages: Vec<PageBlocks<'_>> =
            (1..=8).map(|number| PageBlocks { number, page: PAGE, blocks, images: &[] }).collect();
        let mut first = blocks.to_vec();
        Findings::of(&pages).apply(1, PAGE, &mut first);
        first.iter().map(|block| block.kind).collect()
    }

    #[test]
    fn a_page_with_nothing_but_a_running_header_keeps_it() {
        let (header, body) = (block(20, "Page 3"), block(300, "The body of the text."));
        let with_body = kinds(&[header.clone(), body]);
        assert!(matches!(with_body[0], BlockKind::PageHeader | BlockKind::PageNumber), "{with_body:?}");
        assert_eq!(kinds(&[header]), [BlockKind::default()]);
    }
}
