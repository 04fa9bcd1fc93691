//! Images that are on most pages: letterheads, watermarks, logos.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PageBlocks, PageBox};
use crate::document::MAX_IMAGES;

/// Fewer pages show no repetition.
const MIN_PAGES: usize = 3;
/// An image at the same place on at least this part of the pages belongs to their design.
const MIN_SHARE_PERCENT: usize = 60;
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
            // Rounded, so that equal places are found without comparing all pairs.
            let mut places: Vec<[i32; 4]> =
                page.images.iter().map(|image| image.0.map(|value| value / 4)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageBox = PageBox([0, 0, 600, 800]);
    const WATERMARK: PageBox = PageBox([100, 200, 500, 600]);

    #[test]
    fn a_watermark_explains_its_pages_and_a_photo_does_not() {
        let photo = PageBox([50, 50, 550, 400]);
        let lists: Vec<Vec<PageBox>> =
            (0..5).map(|page| if page == 2 { vec![WATERMARK, photo] } else { vec![WATERMARK] }).collect();
        let pages: Vec<PageBlocks<'_>> = lists
            .iter()
            .enumerate()
            .map(|(index, images)| PageBlocks { number: index as u32 + 1, page: PAGE, blocks: &[], images })
            .collect();
        let repeated = RepeatedImages::of(&pages);
        let explained: Vec<bool> = lists.iter().map(|images| repeated.explain(PAGE, images)).collect();
        assert_eq!(explained, [true, true, false, true, true]);
        assert!(!RepeatedImages::of(&pages[..2]).explain(PAGE, &lists[0]));
    }
}
