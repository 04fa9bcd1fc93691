//! A line of words in known boxes: its baseline, its size, and how wide each word is.

use super::font::ADVANCE;
use crate::page::Area;

/// The parts of a font's size above and below its baseline, as the font says.
const ASCENT: f32 = 0.8;
const DESCENT: f32 = 0.2;
const MIN_SIZE: f32 = 1.0;
/// The slope of a line is measured if it has so many words and is so many times as wide as high: letters with
/// ascenders and descenders lie about a level line too.
const MIN_SLOPE_WORDS: usize = 5;
const MIN_SLOPE_WIDTH: f32 = 15.0;
/// A line that rises more than this was put together from words of several lines.
const MAX_SLOPE: f32 = 0.1;
/// A line is at most this many times as high as its middle word: a box may reach over several lines.
const MAX_HEIGHT: f32 = 1.8;
/// Widths of text, in percent of what the font's own would be.
const MIN_STRETCH: f32 = 1.0;
const MAX_STRETCH: f32 = 2000.0;

/// Words on one baseline, in points of the upright page, y down.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WordLine {
    pub size: f32,
    /// How much y grows with x along the line.
    pub slope: f32,
    pub words: Vec<PlacedWord>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedWord {
    pub text: String,
    /// Where its baseline begins.
    pub x: f32,
    pub y: f32,
    pub stretch: f32,
    /// The width of the space after it, likewise; `None` without a space.
    pub space: Option<f32>,
}

/// Lays words out so that each fills its box from side to side. A space at the end of a word fills the gap to the next.
pub(super) fn line(words: &[(&str, Area)]) -> Option<WordLine> {
    let areas: Vec<Area> = words.iter().map(|(_, area)| *area).collect();
    let whole = areas.iter().copied().reduce(|one, other| one.union(&other))?;
    let slope = slope(&areas, &whole);
    let (top, bottom) = (levels(&areas, slope, |area| area.y0), levels(&areas, slope, |area| area.y1));
    let bottom = bottom.last().copied()?;
    let mut heights: Vec<f32> = areas.iter().map(Area::height).collect();
    heights.sort_by(f32::total_cmp);
    let limit = heights.get(heights.len() / 2).copied()? * MAX_HEIGHT;
    let size = (bottom - top.first().copied()?).min(limit).max(MIN_SIZE);
    let baseline = bottom - DESCENT * size / (ASCENT + DESCENT);
    let natural = |characters: usize| characters.max(1) as f32 * size * f32::from(ADVANCE) / 1000.0;
    let stretch = |width: f32, natural: f32| (100.0 * width / natural).clamp(MIN_STRETCH, MAX_STRETCH);
    let placed = words.iter().enumerate().map(|(index, (text, area))| {
        let word = text.trim_end();
        let gap = areas.get(index + 1).map_or(0.0, |next| next.x0 - area.x1);
        PlacedWord {
            text: word.to_owned(),
            x: area.x0,
            y: baseline + slope * area.x0,
            stretch: stretch(area.width(), natural(word.chars().count())),
            space: (word.len() < text.len()).then(|| stretch(gap, natural(1))),
        }
    });
    Some(WordLine { size, slope, words: placed.collect() })
}

/// The slope of the line through the middles of the words, by least squares.
fn slope(areas: &[Area], whole: &Area) -> f32 {
    let heights: f32 = areas.iter().map(Area::height).sum();
    let height = heights / areas.len().max(1) as f32;
    if areas.len() < MIN_SLOPE_WORDS || whole.width() < MIN_SLOPE_WIDTH * height {
        return 0.0;
    }
    let count = areas.len() as f32;
    let middles = || areas.iter().map(Area::center);
    let (x, y) = middles().fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x / count, sy + y / count));
    let (above, below) = middles().fold((0.0, 0.0), |(above, below), (wx, wy)| {
        (above + (wx - x) * (wy - y), below + (wx - x) * (wx - x))
    });
    let slope = above / below;
    if slope.is_finite() && slope.abs() <= MAX_SLOPE { slope } else { 0.0 }
}

/// The levels of the words' edges at x = 0 of a level page, ascending.
fn levels(areas: &[Area], slope: f32, edge: impl Fn(&Area) -> f32) -> Vec<f32> {
    let mut levels: Vec<f32> = areas.iter().map(|area| edge(area) - slope * area.center().0).collect();
    levels.sort_by(f32::total_cmp);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(line: &WordLine) -> Vec<(f32, f32)> {
        let natural = |characters: usize| characters as f32 * line.size * 0.5 / 100.0;
        let ends = |word: &PlacedWord| (word.x, word.x + natural(word.text.chars().count()) * word.stretch);
        line.words.iter().map(ends).collect()
    }

    #[test]
    fn words_fill_their_boxes_and_spaces_the_gaps() {
        let words = [
            ("on ", Area::new(50.0, 103.0, 62.0, 110.0)),
            ("Quay ", Area::new(66.0, 100.0, 92.0, 112.0)),
            ("walls", Area::new(96.0, 100.0, 121.0, 110.0)),
        ];
        let line = line(&words).unwrap();
        assert_eq!((line.size, line.slope), (12.0, 0.0));
        for ((from, to), (_, area)) in widths(&line).iter().zip(&words) {
            assert!((from - area.x0).abs() < 0.01 && (to - area.x1).abs() < 0.01, "{from} {to} {area:?}");
        }
        // 4 points of a space that has 6 by itself.
        assert!((line.words[0].space.unwrap() - 66.667).abs() < 0.01);
        assert_eq!((line.words[1].text.as_str(), line.words[2].space), ("Quay", None));
        let baselines: Vec<f32> = line.words.iter().map(|word| word.y).collect();
        assert!(baselines.iter().all(|y| (y - 109.6).abs() < 0.01), "{baselines:?}");
        assert_eq!(super::line(&[]), None);
    }

    #[test]
    fn a_skewed_line_keeps_its_height_and_rises_with_its_words() {
        let words: Vec<(&str, Area)> = (0..10)
            .map(|at| {
                let (x, y) = (50.0 + 45.0 * at as f32, 100.0 + 0.02 * 45.0 * at as f32);
                ("word ", Area::new(x, y, x + 40.0, y + 10.0))
            })
            .collect();
        let line = line(&words).unwrap();
        assert!((line.slope - 0.02).abs() < 0.001 && (line.size - 10.0).abs() < 0.1, "{line:?}");
        for (word, (_, area)) in line.words.iter().zip(&words) {
            assert!((word.y - (area.y1 - 2.0)).abs() < 0.6, "{word:?} {area:?}");
        }
    }

    #[test]
    fn words_of_different_lines_have_no_slope_and_right_to_left_no_gaps() {
        let far: Vec<(&str, Area)> = (0..6)
            .map(|at| {
                (
                    "w ",
                    Area::new(
                        60.0 * at as f32,
                        100.0 * at as f32,
                        60.0 * at as f32 + 50.0,
                        100.0 * at as f32 + 10.0,
                    ),
                )
            })
            .collect();
        let found = line(&far).unwrap();
        assert_eq!(found.slope, 0.0);
        assert!(found.size <= 18.0);
        let hebrew =
            [("שלום ", Area::new(90.0, 0.0, 120.0, 10.0)), ("עולם", Area::new(50.0, 0.0, 80.0, 10.0))];
        assert_eq!(line(&hebrew).unwrap().words[0].space, Some(MIN_STRETCH));
    }
}
