//! From recognized words to the layout's input: lines of glyphs on the page.

use everypage_core::{
    document::{Block, Confidence, PageBox, PageWord},
    ports::ocr::OcrReading,
};

use super::wire::{Page, PixelBox, Word};
use crate::{
    layout::{
        self,
        content::{Direction, FontStyle, Glyph, GlyphLine, PageContent},
    },
    page::{Area, Sheet},
};

/// More words are not on a page.
const MAX_WORDS: usize = 20_000;
/// Below this a mark without letters is dirt or a piece of a line.
const MIN_MARK_CONFIDENCE: f32 = 0.6;
/// Below this a word is noise.
const MIN_CONFIDENCE: f32 = 0.15;
/// Sizes of lines are measured on the image; those that differ by less than this share are the same.
const SIZE_TOLERANCE: f32 = 0.2;
/// The part of a letter's height that is below its line.
const DESCENT: f32 = 0.2;

/// The resolution of an image of this page.
pub(super) fn dpi(width_px: u32, page: PageBox) -> u32 {
    const UNKNOWN: u32 = 200;
    match page.width() {
        0 => UNKNOWN,
        points => (f64::from(width_px) * 72.0 / f64::from(points)).round().clamp(50.0, 2400.0) as u32,
    }
}

/// Reads the layout of a page from its words.
pub(super) fn layout(mut found: Page, page: PageBox) -> OcrReading {
    let confidence = confidence(&found.words);
    found.words.truncate(MAX_WORDS);
    found.words.retain(|word| !is_noise(word));
    let scale = 72.0 / dpi(found.width, page) as f32;
    let blocks = layout::read(content(&found, scale)).blocks;
    let words = in_order_of(&blocks, &found.words, scale);
    OcrReading { blocks, words, confidence }
}

/// The words in the order of the blocks, and of the cells of a table, in which they are.
fn in_order_of(blocks: &[Block], words: &[Word], scale: f32) -> Vec<PageWord> {
    let areas: Vec<PageBox> = blocks
        .iter()
        .flat_map(|block| {
            let cells = block.table.iter().flat_map(|table| table.rows.iter().flatten());
            cells.filter_map(|cell| cell.area).chain([block.area])
        })
        .collect();
    let place = |word: &PageWord| {
        let area = word.area;
        let (x, y) = ((area.left() + area.right()) / 2, (area.top() + area.bottom()) / 2);
        let is_here = |area: &PageBox| {
            (area.left()..=area.right()).contains(&x) && (area.top()..=area.bottom()).contains(&y)
        };
        areas.iter().position(is_here).unwrap_or(areas.len())
    };
    let mut words: Vec<PageWord> = words
        .iter()
        .map(|word| PageWord {
            text: word.text.clone(),
            area: layout::page_box(&points(word.area, scale)),
            line: word.line,
            confidence: Confidence::new(word.confidence),
            turns: word.turns % 4,
        })
        .collect();
    words.sort_by_cached_key(place);
    words
}

/// The mean of the words' confidences, by their letters.
fn confidence(words: &[Word]) -> Confidence {
    let letters = |word: &Word| word.text.chars().count() as f32;
    let all: f32 = words.iter().map(letters).sum();
    let sure: f32 = words.iter().map(|word| letters(word) * word.confidence).sum();
    Confidence::new(if all > 0.0 { sure / all } else { 0.0 })
}

fn is_noise(word: &Word) -> bool {
    let has_letters = word.text.chars().any(char::is_alphanumeric);
    word.confidence < MIN_CONFIDENCE || (!has_letters && word.confidence < MIN_MARK_CONFIDENCE)
}

fn content(found: &Page, scale: f32) -> PageContent {
    let Page { width, height, words, lines: rules } = found;
    // An image has whole pixels, and may be a point larger than its page.
    let sheet = Sheet { width: *width as f32 * scale, height: *height as f32 * scale };
    let body = body_size(words);
    let lines = words
        .chunk_by(|a, b| a.line == b.line && a.turns == b.turns)
        .filter_map(|line| glyph_line(line, &sheet, scale, body))
        .collect();
    let areas: Vec<(Area, u8)> = words.iter().map(|word| (points(word.area, scale), word.turns)).collect();
    let rules =
        rules.iter().map(|rule| points(*rule, scale)).filter(|rule| !strikes_out(rule, &areas)).collect();
    PageContent {
        page: Area::new(0.0, 0.0, sheet.width, sheet.height),
        lines,
        rules,
        ..PageContent::default()
    }
}

/// Whether a line runs through the middle of words: on a skewed page one that is flattened does, and it would strike
/// them out.
fn strikes_out(rule: &Area, words: &[(Area, u8)]) -> bool {
    let is_level = rule.width() > rule.height();
    let (x, y) = rule.center();
    words.iter().any(|(word, turns)| {
        let both = rule.intersect(word);
        let is_middle = |from: f32, to: f32, at: f32| (at - (from + to) / 2.0).abs() < (to - from) / 4.0;
        match turns % 2 == 0 {
            true => is_level && both.width() > 0.0 && is_middle(word.y0, word.y1, y),
            false => !is_level && both.height() > 0.0 && is_middle(word.x0, word.x1, x),
        }
    })
}

/// The size of most letters, in points.
fn body_size(words: &[Word]) -> f32 {
    let mut letters: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
    for word in words {
        *letters.entry(word.points).or_default() += word.text.chars().count();
    }
    letters.into_iter().max_by_key(|(_, letters)| *letters).map_or(10.0, |(points, _)| points as f32).max(1.0)
}

/// The glyphs of a line, all on one baseline: so a slight skew does not tear it apart.
fn glyph_line(line: &[Word], sheet: &Sheet, scale: f32, body: f32) -> Option<GlyphLine> {
    let turns = line.first()?.turns;
    let areas: Vec<Area> = line.iter().map(|word| sheet.upright(points(word.area, scale), turns)).collect();
    let size = match line.first()?.points as f32 {
        0.0 => 1.2 * areas.iter().map(Area::height).fold(0.0, f32::max),
        size => size,
    };
    let size = if (size - body).abs() <= SIZE_TOLERANCE * body { body } else { size };
    let baseline = baseline(line, &areas, size);
    let glyph = |c, x0, x1| {
        let upright = Area::new(x0, baseline - (1.0 - DESCENT) * size, x1, baseline + DESCENT * size);
        let area = sheet.original(upright, turns);
        // For a page that lies on its side the layout finds it from the area.
        Glyph { c, area, baseline, size, is_synthetic: false, style: FontStyle::default() }
    };
    let mut glyphs = Vec::new();
    for (index, (word, area)) in line.iter().zip(&areas).enumerate() {
        if let Some(before) = index.checked_sub(1).and_then(|before| areas.get(before)) {
            glyphs.push(glyph(' ', before.x1.min(area.x0), area.x0.max(before.x1)));
        }
        let count = word.text.chars().count().max(1) as f32;
        let width = area.width() / count;
        glyphs.extend(word.text.chars().enumerate().map(|(at, c)| {
            let x = area.x0 + at as f32 * width;
            glyph(c, x, x + width)
        }));
    }
    let direction = match turns % 4 {
        1 => Direction::Up,
        2 => Direction::Left,
        3 => Direction::Down,
        _ => Direction::Right,
    };
    Some(GlyphLine { glyphs, direction })
}

fn points(area: PixelBox, scale: f32) -> Area {
    let PixelBox { x0, y0, x1, y1 } = area;
    let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|pixels| pixels as f32 * scale);
    Area::new(x0, y0, x1.max(x0), y1.max(y0))
}

/// Where most words without descenders end.
fn baseline(line: &[Word], areas: &[Area], size: f32) -> f32 {
    let descends =
        |word: &Word| word.text.contains(['g', 'j', 'p', 'q', 'y', 'Q', ',', ';', '(', ')', '/', '_', '|']);
    let bottoms = |with: bool| {
        let mut bottoms: Vec<f32> = line
            .iter()
            .zip(areas)
            .filter(|(word, _)| descends(word) == with)
            .map(|(_, area)| area.y1)
            .collect();
        bottoms.sort_by(f32::total_cmp);
        bottoms.get(bottoms.len() / 2).copied()
    };
    bottoms(false).or_else(|| bottoms(true).map(|bottom| bottom - DESCENT * size)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use everypage_core::document::plain_text;

    use super::*;

    /// A page of 600 x 800 points at 72 dpi with three lines, turned clockwise `turns` times when it was scanned.
    fn scanned(turns: u8) -> Page {
        let (width, height) = if turns.is_multiple_of(2) { (600, 800) } else { (800, 600) };
        // How often it must be turned to be upright, and where its upright areas are on it.
        let back = (4 - turns) % 4;
        let sheet = Sheet { width: width as f32, height: height as f32 };
        let texts = ["The first line of it", "continues for quite a", "while and ends here."];
        let mut words = Vec::new();
        for (line, text) in texts.iter().enumerate() {
            let mut x = 50.0;
            for text in text.split(' ') {
                let wide = 6.0 * text.len() as f32;
                let top = 100.0 + 14.0 * line as f32;
                let area = sheet.original(Area::new(x, top, x + wide, top + 10.0), back);
                let pixels = PixelBox {
                    x0: area.x0.round() as u32,
                    y0: area.y0.round() as u32,
                    x1: area.x1.round() as u32,
                    y1: area.y1.round() as u32,
                };
                let (text, line) = (text.to_owned(), line as u32);
                words.push(Word { text, area: pixels, confidence: 0.9, points: 12, turns: back, line });
                x += wide + 4.0;
            }
        }
        Page { width, height, words, lines: vec![] }
    }

    #[test]
    fn a_turned_page_reads_like_an_upright_one_and_its_boxes_are_where_they_lay() {
        for turns in 0..4 {
            let page = scanned(turns);
            let (width, height) = (page.width as i32, page.height as i32);
            let read = layout(page, PageBox([0, 0, width, height]));
            let text = "The first line of it continues for quite a while and ends here.";
            assert_eq!(plain_text(&read.blocks), text, "{turns} turns");
            let area = read.blocks[0].area;
            // The text is at the top of the sheet, which is at another edge of a turned one.
            let (x, y) = ((area.left() + area.right()) / 2, (area.top() + area.bottom()) / 2);
            let is_there = match turns {
                0 => y < height / 4,
                1 => x > width * 3 / 4,
                2 => y > height * 3 / 4,
                _ => x < width / 4,
            };
            assert!(is_there, "{turns} turns: {area:?} of {width} x {height}");
        }
    }

    #[test]
    fn the_cells_of_a_ruled_table_are_those_of_its_lines() {
        let cells =
            [["Berth", "Depth at low water", "Built"], ["North quay", "4 m", ""], ["", "6 m", "1894"]];
        let mut page = Page { width: 600, height: 800, words: vec![], lines: vec![] };
        for (row, texts) in cells.iter().enumerate() {
            for (column, text) in texts.iter().enumerate() {
                let (mut x, top) = (60 + 160 * column as u32, 105 + 20 * row as u32);
                for text in text.split_whitespace() {
                    let wide = 6 * text.len() as u32;
                    let area = PixelBox { x0: x, y0: top, x1: x + wide, y1: top + 10 };
                    let line = (3 * row + column) as u32;
                    page.words.push(Word {
                        text: text.into(),
                        area,
                        confidence: 0.9,
                        points: 12,
                        turns: 0,
                        line,
                    });
                    x += wide + 4;
                }
            }
        }
        let rule = |x0, y0, x1, y1| PixelBox { x0, y0, x1, y1 };
        page.lines.extend((0..4).map(|row| rule(50, 100 + 20 * row, 530, 101 + 20 * row)));
        page.lines.extend((0..4).map(|column| rule(50 + 160 * column, 100, 51 + 160 * column, 160)));
        let read = layout(page, PageBox([0, 0, 600, 800]));
        let table = read.blocks.iter().find_map(|block| block.table.as_ref()).unwrap();
        let found: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(found, cells);
        // The words are in the order of the cells.
        let words: Vec<&str> = read.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(words.join(" "), "Berth Depth at low water Built North quay 4 m 6 m 1894");
    }

    #[test]
    fn dirt_is_left_out() {
        let mut page = scanned(0);
        let dirt = Word { text: "|~".into(), confidence: 0.3, line: 9, ..page.words[0].clone() };
        page.words.push(dirt);
        let read = layout(page, PageBox([0, 0, 600, 800]));
        assert!(!plain_text(&read.blocks).contains('~'));
        assert!((read.confidence.get() - 0.88).abs() < 0.03);
    }
}
