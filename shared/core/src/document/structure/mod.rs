//! The structure of a whole document: what needs more than one page to be seen.
//!
//! Running headers and footers are known by their repetition, headings by what the rest of the text looks like. A
//! first pass over the pages gives [`Findings`], which are small and can be stored; [`Findings::apply`] then
//! completes each page by itself.

mod continuation;
mod furniture;
mod headings;
mod images;
mod languages;

use serde::{Deserialize, Serialize};

use super::{Block, BlockKind, PageBox};

use continuation::ContinuedTables;
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

/// The properties that the pages of a document have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    furniture: Furniture,
    headings: Headings,
    #[serde(default, flatten)]
    continued: ContinuedTables,
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
        let continued = ContinuedTables::of(pages, &furniture);
        let images = RepeatedImages::of(pages);
        Self { furniture, headings, continued, images, languages: vec![] }
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
            if block.kind == BlockKind::Margin && !self.furniture.is_margin(block) {
                block.kind = BlockKind::Paragraph;
            }
            self.headings.apply(block);
        }
        self.continued.apply(number, blocks);
    }
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
