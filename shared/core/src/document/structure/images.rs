//! Images that are on most pages: letterheads, watermarks, logos.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PageBlocks, PageBox};
use crate::document::MAX_IMAGES;

/// Fewer pages show no repetition.
const MIN_PAGES: usize = 3;
/// An image at the same place on at least this part of the pages may belong to their design.
const MIN_SHARE_PERCENT: usize = 60;
/// It does in the margins, that is in these outer parts of the page, if it is not larger than a letterhead.
const MARGIN_PERCENT: i64 = 22;
const MAX_LETTERHEAD_PERCENT: i64 = 15;
/// And where it is behind the text: text covers at least this part of a watermark.
const MIN_COVERED_PERCENT: i64 = 20;
/// Boxes that differ by less, in points, are at the same place.
const TOLERANCE_POINTS: i32 = 3;
/// An image up to this part of the page, in percent, is a logo; all together may have twice as much.
const MAX_LOGO_PERCENT: i64 = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RepeatedImages {
    boxes: Vec<PageBox>,
}

impl RepeatedImages {
    pub fn of(pages: &[PageBlocks<'_>]) -> Self {
        if pages.len() < MIN_PAGES {
            return Self::default();
        }
        let mut counts: BTreeMap<[i32; 4], usize> = BTreeMap::new();
        for page in pages {
            let design = page.images.iter().filter(|image| is_design(page, **image));
            // Rounded, so that equal places are found without comparing all pairs.
            let mut places: Vec<[i32; 4]> = design.map(|image| image.0.map(|value| value / 4)).collect();
            places.sort_unstable();
            places.dedup();
            for place in places {
                *counts.entry(place).or_default() += 1;
            }
        }
        let boxes = counts
            .into_iter()
            .filter(|(_, count)| count * 100 >= pages.len() * MIN_SHARE_PERCENT)
            .map(|(place, _)| PageBox(place.map(|value| value * 4 + 2)))
            .take(MAX_IMAGES)
            .collect();
        Self { boxes }
    }

    /// Whether the page's images are repeated or small.
    pub fn explain(&self, page: PageBox, images: &[PageBox]) -> bool {
        let is_repeated = |image: &PageBox| {
            self.boxes.iter().any(|other| {
                image.0.iter().zip(other.0).all(|(a, b)| a.abs_diff(b) <= TOLERANCE_POINTS.unsigned_abs())
            })
        };
        let size = |area: &PageBox| i64::from(area.width()) * i64::from(area.height());
        let others: Vec<i64> = images.iter().filter(|image| !is_repeated(image)).map(size).collect();
        let limit = size(&page) * MAX_LOGO_PERCENT / 100;
        !images.is_empty()
            && images.len() < MAX_IMAGES
            && others.iter().all(|size| *size <= limit)
            && others.iter().sum::<i64>() <= 2 * limit
    }
}

/// Whether an image that is on most pages would be part of their design. A figure of the same size at the
/// same place on every page is not.
fn is_design(page: &PageBlocks<'_>, image: PageBox) -> bool {
    let size = |area: PageBox| i64::from(area.width()) * i64::from(area.height());
    let (whole, own) = (page.page, size(image).max(1));
    let margin = |length: i32| i32::try_from(i64::from(length) * MARGIN_PERCENT / 100).unwrap_or(0);
    let (side, above) = (margin(whole.width()), margin(whole.height()));
    let is_in_margin = image.bottom() <= whole.top().saturating_add(above)
        || image.top() >= whole.bottom().saturating_sub(above)
        || image.right() <= whole.left().saturating_add(side)
        || image.left() >= whole.right().saturating_sub(side);
    if is_in_margin && own * 100 <= size(whole) * MAX_LETTERHEAD_PERCENT {
        return true;
    }
    let text = page.blocks.iter().filter(|block| !block.text.is_empty());
    let covered: i64 = text.map(|block| size(common(block.area, image))).sum();
    covered * 100 >= own * MIN_COVERED_PERCENT
}

fn common(one: PageBox, other: PageBox) -> PageBox {
    let (left, top) = (one.left().max(other.left()), one.top().max(other.top()));
    PageBox([left, top, one.right().min(other.right()), one.bottom().min(other.bottom())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::block::Block;

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);
    const WATERMARK: PageBox = PageBox([100, 200, 500, 600]);

    fn text(area: PageBox) -> Block {
        Block { area, text: "The body of the text.".into(), ..Block::default() }
    }

    #[test]
    fn a_letterhead_explains_its_pages_and_a_figure_at_the_same_place_does_not() {
        let body = [text(PageBox([50, 100, 550, 300]))];
        for (image, expected) in [
            (PageBox([50, 20, 550, 90]), true),
            (PageBox([10, 740, 100, 790]), true),
            (PageBox([100, 400, 400, 600]), false),
        ] {
            let images = [image];
            let page = |number| PageBlocks { number, page: PAGE, blocks: &body, images: &images };
            let repeated = RepeatedImages::of(&[1, 2, 3, 4].map(page));
            assert_eq!(repeated.explain(PAGE, &images), expected, "{image:?}");
        }
    }

    #[test]
    fn a_watermark_explains_its_pages_and_a_photo_does_not() {
        let body = [text(PageBox([50, 100, 550, 700]))];
        let photo = PageBox([50, 50, 550, 400]);
        let lists: Vec<Vec<PageBox>> =
            (0..5).map(|page| if page == 2 { vec![WATERMARK, photo] } else { vec![WATERMARK] }).collect();
        let pages: Vec<PageBlocks<'_>> = lists
            .iter()
            .enumerate()
            .map(|(index, images)| PageBlocks { number: index as u32 + 1, page: PAGE, blocks: &body, images })
            .collect();
        let repeated = RepeatedImages::of(&pages);
        let explained: Vec<bool> = lists.iter().map(|images| repeated.explain(PAGE, images)).collect();
        assert_eq!(explained, [true, true, false, true, true]);
        assert!(!RepeatedImages::of(&pages[..2]).explain(PAGE, &lists[0]));
    }
}
