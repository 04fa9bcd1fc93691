//! Running headers, footers and page numbers: what repeats at the same place over pages.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Block, BlockKind, PageBlocks, PageBox};

/// The part of a page's height, above and below, where headers and footers are.
const ZONE_SHARE: f64 = 0.14;
/// At least so many points on a small page, but not more than its outer quarters.
const MIN_ZONE_POINTS: f64 = 72.0;
const MAX_ZONE_SHARE: f64 = 0.25;
/// Headers and footers have at most this many blocks on a page.
const MAX_BLOCKS: usize = 6;
/// Blocks of one header differ in height by less than this, in points.
const MAX_SHIFT_POINTS: i32 = 14;
/// A longer text is no header; only its start is compared.
const MAX_KEY_CHARACTERS: usize = 120;
/// Documents of up to this many pages need two repetitions, longer ones three.
const SHORT_DOCUMENT_PAGES: usize = 5;

/// A text this much larger than the others, in percent, is no header unless most pages have it.
const LARGE_PERCENT: u32 = 118;
/// With a number it is none then either: "Chapter 1", "Chapter 2".
const NUMBERED_TITLE_PERCENT: u32 = 150;
const MIN_TITLE_SHARE_PERCENT: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Zone {
    Top,
    Bottom,
}

/// A text that repeats: digits are written as `#`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Repeated {
    zone: Zone,
    text: String,
    /// Distance from the edge of the page, in points: from the upper one at the top, from the lower one at the bottom.
    from: i32,
    to: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Furniture {
    repeated: Vec<Repeated>,
    /// A document of one or two pages may show no repetition: there, a bare number at the foot is furniture.
    pages: u32,
    /// Pages with a bare number at the foot.
    #[serde(default)]
    numbered_pages: u32,
    /// Texts along the edges of several pages.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    margins: BTreeSet<String>,
}

/// Page, distance from the edge and size of a text.
type Occurrence = (u32, i32, u16);

impl Furniture {
    pub fn of(pages: &[PageBlocks<'_>]) -> Self {
        // Per text and zone: page, distance and size of each occurrence.
        let mut seen: BTreeMap<(Zone, String), Vec<Occurrence>> = BTreeMap::new();
        let body = body_size(pages);
        for page in pages {
            for (index, zone) in candidates(page.page, page.blocks) {
                let block = &page.blocks[index];
                let key = (zone, key(block));
                if !key.1.is_empty() {
                    seen.entry(key).or_default().push((
                        page.number,
                        distance(page.page, block.area, zone),
                        block.style.size,
                    ));
                }
            }
        }
        let least = if pages.len() <= SHORT_DOCUMENT_PAGES { 2 } else { 3 };
        let mut repeated = Vec::new();
        for ((zone, text), mut places) in seen {
            places.sort_by_key(|(_, distance, _)| *distance);
            for run in places.chunk_by(|a, b| b.1 - a.1 <= MAX_SHIFT_POINTS) {
                let distinct: BTreeSet<u32> = run.iter().map(|(page, ..)| *page).collect();
                // A large text without numbers on some pages is the title of several slides.
                let is_large =
                    run.iter().all(|(.., size)| u32::from(*size) * 100 / u32::from(body) >= LARGE_PERCENT);
                let is_numbered = text.contains('#')
                    && run
                        .iter()
                        .all(|(.., size)| u32::from(*size) * 100 / u32::from(body) >= NUMBERED_TITLE_PERCENT);
                let is_title = is_numbered
                    || is_large
                        && !text.contains('#')
                        && distinct.len() * 100 < pages.len() * MIN_TITLE_SHARE_PERCENT;
                if distinct.len() >= least
                    && !is_title
                    && let (Some(first), Some(last)) = (run.first(), run.last())
                {
                    repeated.push(Repeated { zone, text: text.clone(), from: first.1, to: last.1 });
                }
            }
        }
        repeated.sort();
        let is_numbered = |page: &&PageBlocks<'_>| {
            let mut found = candidates(page.page, page.blocks).into_iter();
            found.any(|(index, zone)| is_number_at_foot(page.page, &page.blocks[index], zone))
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            repeated,
            pages: count(pages.len()),
            numbered_pages: count(pages.iter().filter(is_numbered).count()),
            margins: repeated_margins(pages),
        }
    }

    /// Whether a text along the edge of a page belongs to it: numbers of lines, what repeats, and stamps.
    pub fn is_margin(&self, block: &Block) -> bool {
        let key = key(block);
        block.kind == BlockKind::Margin && (key == "#" || is_stamp(&key) || self.margins.contains(&key))
    }

    /// Whether bare numbers at the foot count the pages: several pages have one, or there are not several.
    fn has_page_numbers(&self) -> bool {
        self.numbered_pages >= 2 || self.pages <= 2
    }

    /// The blocks of a page that are furniture, with their kinds.
    pub fn kinds(&self, page: PageBox, blocks: &[Block]) -> impl Iterator<Item = (usize, BlockKind)> {
        candidates(page, blocks).into_iter().filter_map(move |(index, zone)| {
            let block = &blocks[index];
            let (text, distance) = (key(block), distance(page, block.area, zone));
            let is_number = is_page_number(&text);
            let is_repeated = self.repeated.iter().any(|other| {
                other.zone == zone
                    && other.text == text
                    && (other.from - MAX_SHIFT_POINTS..=other.to + MAX_SHIFT_POINTS).contains(&distance)
            });
            let kind = match zone {
                _ if is_number => BlockKind::PageNumber,
                Zone::Top => BlockKind::PageHeader,
                Zone::Bottom => BlockKind::PageFooter,
            };
            (is_repeated || (self.has_page_numbers() && is_number_at_foot(page, block, zone)))
                .then_some((index, kind))
        })
    }
}

fn repeated_margins(pages: &[PageBlocks<'_>]) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for page in pages {
        for block in page.blocks.iter().filter(|block| block.kind == BlockKind::Margin) {
            seen.entry(key(block)).or_default().insert(page.number);
        }
    }
    seen.into_iter().filter(|(_, pages)| pages.len() >= 2).map(|(key, _)| key).collect()
}

/// Where a file is from, as archives and publishers print it along the edge of its first page.
fn is_stamp(key: &str) -> bool {
    ["arxiv:", "doi", "http", "www.", "©", "copyright", "downloaded"].iter().any(|mark| key.contains(mark))
}

/// The size of most of the text, in tenths of a point.
fn body_size(pages: &[PageBlocks<'_>]) -> u16 {
    let mut sizes: BTreeMap<u16, usize> = BTreeMap::new();
    for block in pages.iter().flat_map(|page| page.blocks).filter(|block| !block.text.is_empty()) {
        *sizes.entry(block.style.size).or_default() += block.text.len();
    }
    sizes.into_iter().max_by_key(|(_, length)| *length).map_or(100, |(size, _)| size).max(1)
}

/// The first blocks of the upper zone and the last of the lower one.
fn candidates(page: PageBox, blocks: &[Block]) -> Vec<(usize, Zone)> {
    let height = f64::from(page.height());
    if height <= 0.0 {
        return Vec::new();
    }
    let zone = (ZONE_SHARE * height).max(MIN_ZONE_POINTS).min(MAX_ZONE_SHARE * height);
    let upper = f64::from(page.top()) + zone;
    let lower = f64::from(page.bottom()) - zone;
    let mut zones: Vec<(usize, Zone)> = Vec::new();
    for zone in [Zone::Top, Zone::Bottom] {
        let mut inside: Vec<usize> = (0..blocks.len())
            .filter(|index| {
                let block = &blocks[*index];
                let is_inside = match zone {
                    Zone::Top => f64::from(block.area.bottom()) <= upper,
                    Zone::Bottom => f64::from(block.area.top()) >= lower,
                };
                is_inside && !matches!(block.kind, BlockKind::Margin | BlockKind::Figure)
            })
            .collect();
        inside.sort_by_key(|index| distance(page, blocks[*index].area, zone));
        zones.extend(inside.into_iter().take(MAX_BLOCKS).map(|index| (index, zone)));
    }
    zones
}

fn is_number_at_foot(page: PageBox, block: &Block, zone: Zone) -> bool {
    let is_at_edge = f64::from(distance(page, block.area, zone)) < 0.1 * f64::from(page.height());
    zone == Zone::Bottom && is_at_edge && block.style.lines <= 1 && is_page_number(&key(block))
}

fn distance(page: PageBox, area: PageBox, zone: Zone) -> i32 {
    match zone {
        Zone::Top => area.top().saturating_sub(page.top()),
        Zone::Bottom => page.bottom().saturating_sub(area.bottom()),
    }
}

/// The text with digits as `#`, in lower case, without spaces: what repeats although page numbers count.
fn key(block: &Block) -> String {
    let mut text = String::new();
    block.write_text(&mut text);
    let mut key = String::new();
    for c in text.chars().filter(|c| !c.is_whitespace()).take(MAX_KEY_CHARACTERS) {
        match c {
            '0'..='9' => {
                if !key.ends_with('#') {
                    key.push('#');
                }
            }
            c => key.extend(c.to_lowercase()),
        }
    }
    if is_roman(&key) { "#".into() } else { key }
}

fn is_roman(key: &str) -> bool {
    !key.is_empty() && key.len() <= 7 && key.chars().all(|c| "ivxlc".contains(c))
}

/// `#`, `-#-`, `page#`, `page#of#`, `#/#`.
fn is_page_number(key: &str) -> bool {
    let rest: String = key.chars().filter(|c| c.is_alphanumeric() || *c == '#').collect();
    let is_short = key.chars().count() <= rest.chars().count() + 4;
    is_short
        && matches!(
            rest.as_str(),
            "#" | "##"
                | "page#"
                | "p#"
                | "pg#"
                | "page#of#"
                | "#of#"
                | "page##"
                | "seite#"
                | "seite#von#"
                | "#von#"
                | "página#"
                | "página#de#"
                | "#de#"
                | "page#sur#"
                | "#sur#"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::BlockStyle;

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);

    fn block(y: i32, text: &str) -> Block {
        let style = BlockStyle { size: 100, lines: 1, ..BlockStyle::default() };
        Block { area: PageBox([50, y, 300, y + 10]), text: text.into(), style, ..Block::default() }
    }

    fn kinds(pages: &[Vec<Block>]) -> Vec<Vec<Option<BlockKind>>> {
        let inputs: Vec<PageBlocks<'_>> = pages
            .iter()
            .enumerate()
            .map(|(index, blocks)| PageBlocks { number: index as u32 + 1, page: PAGE, blocks, images: &[] })
            .collect();
        let furniture = Furniture::of(&inputs);
        pages
            .iter()
            .map(|blocks| {
                let found: BTreeMap<usize, BlockKind> = furniture.kinds(PAGE, blocks).collect();
                (0..blocks.len()).map(|index| found.get(&index).copied()).collect()
            })
            .collect()
    }

    #[test]
    fn what_repeats_is_furniture_and_a_heading_at_the_top_of_one_page_is_not() {
        let pages: Vec<Vec<Block>> = (1..=6)
            .map(|number| {
                let heading = if number == 3 { "3 Results" } else { "text continues here" };
                vec![
                    block(20, "Annual Report 2024"),
                    block(60, &format!("{heading} {}", "x".repeat(number))),
                    block(400, "body"),
                    block(770, &format!("{number}")),
                ]
            })
            .collect();
        for page in kinds(&pages) {
            assert_eq!(page, [Some(BlockKind::PageHeader), None, None, Some(BlockKind::PageNumber)]);
        }
    }

    #[test]
    fn one_page_keeps_all_but_its_number() {
        let page = vec![block(20, "Report"), block(780, "- 4 -"), block(770, "4 apples")];
        assert_eq!(kinds(&[page]), [[None, Some(BlockKind::PageNumber), None]]);
    }

    #[test]
    fn a_bare_number_at_the_foot_of_one_page_of_several_is_text() {
        let page = |number: Option<&str>| {
            let mut blocks = vec![block(300, "body")];
            blocks.extend(number.map(|number| block(770, number)));
            blocks
        };
        let one = kinds(&[page(None), page(Some("42")), page(None), page(None)]);
        assert_eq!(one[1], [None, None]);
        let two = kinds(&[page(None), page(Some("2")), page(None), page(Some("4"))]);
        assert_eq!(two[1], [None, Some(BlockKind::PageNumber)]);
    }

    #[test]
    fn a_text_along_the_edge_of_one_page_is_text_unless_it_is_a_stamp() {
        let margin = |text: &str| Block { kind: BlockKind::Margin, ..block(300, text) };
        let pages: Vec<Vec<Block>> = (1..=3)
            .map(|number| {
                let mut blocks =
                    vec![block(300, "body"), margin(&format!("Report 7, page {number}")), margin("12")];
                if number == 2 {
                    blocks.extend([
                        margin("Axis of the chart"),
                        margin("arXiv:2401.00001v1 [cs.DL] 1 Jan 2024"),
                    ]);
                }
                blocks
            })
            .collect();
        let inputs: Vec<PageBlocks<'_>> = pages
            .iter()
            .zip(1..)
            .map(|(blocks, number)| PageBlocks { number, page: PAGE, blocks, images: &[] })
            .collect();
        let furniture = Furniture::of(&inputs);
        let found: Vec<bool> = pages[1].iter().map(|block| furniture.is_margin(block)).collect();
        assert_eq!(found, [false, true, true, false, true]);
    }

    #[test]
    fn a_text_in_the_middle_may_repeat() {
        let pages: Vec<Vec<Block>> = (0..4).map(|_| vec![block(300, "Example")]).collect();
        assert!(kinds(&pages).into_iter().flatten().all(|kind| kind.is_none()));
    }
}
