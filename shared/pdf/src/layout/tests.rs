//! Rules of the layout on small pages made by hand.

use everypage_core::document::{Block, BlockKind, plain_text};

use super::{
    content::{Direction, FontStyle, Glyph, GlyphLine, PageContent, TagRole, TaggedRun},
    read,
};
use crate::page::Area;

/// Letters are half an em wide, spaces a third.
struct Sheet {
    content: PageContent,
}

impl Sheet {
    fn new() -> Self {
        Self { content: PageContent { page: Area::new(0.0, 0.0, 600.0, 800.0), ..PageContent::default() } }
    }

    /// A line without space characters, as TeX writes it.
    fn line(self, x: f32, y: f32, text: &str) -> Self {
        self.styled(x, y, 10.0, FontStyle::default(), text)
    }

    fn styled(mut self, x: f32, y: f32, size: f32, style: FontStyle, text: &str) -> Self {
        let mut line = GlyphLine::default();
        let mut at = x;
        for c in text.chars() {
            if c == ' ' {
                at += size / 3.0;
                continue;
            }
            let area = Area::new(at, y - 0.8 * size, at + size / 2.0, y + 0.2 * size);
            line.glyphs.push(Glyph { c, area, baseline: y, size, is_synthetic: false, style });
            at += size / 2.0;
        }
        self.content.lines.push(line);
        self
    }

    fn lines(mut self, x: f32, y: f32, texts: &[&str]) -> Self {
        for (index, text) in texts.iter().enumerate() {
            self = self.line(x, y + 12.0 * index as f32, text);
        }
        self
    }

    fn rule(mut self, x0: f32, y0: f32, x1: f32, y1: f32) -> Self {
        self.content.rules.push(Area::new(x0, y0, x1, y1));
        self
    }

    fn blocks(self) -> Vec<Block> {
        read(self.content).blocks
    }

    fn text(self) -> String {
        plain_text(&self.blocks())
    }
}

fn table(blocks: &[Block]) -> Vec<Vec<String>> {
    let table = blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
    table.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect()).collect()
}

const LEFT: [&str; 4] = [
    "the first line on the left side",
    "goes down and then continues",
    "for two more lines until it",
    "comes to its end here.",
];
const RIGHT: [&str; 4] = [
    "On the right side is the second",
    "part of the text, which is read",
    "after all of the first one, and",
    "then the page is over.",
];

#[test]
fn spaces_come_from_gaps_and_tight_letters_stay_together() {
    assert_eq!(Sheet::new().line(50.0, 100.0, "words without any space").text(), "words without any space");
}

#[test]
fn letters_printed_twice_are_kept_once() {
    let sheet = Sheet::new().line(50.0, 100.0, "shadow").line(50.4, 100.3, "shadow");
    assert_eq!(sheet.text(), "shadow");
}

#[test]
fn two_columns_under_a_wide_title_are_read_one_after_the_other() {
    let title = "a title that is as wide as both of the columns below and so belongs to neither of these";
    let mut sheet = Sheet::new().line(50.0, 60.0, title);
    for row in 0..4 {
        let y = 100.0 + 12.0 * row as f32;
        sheet = sheet.line(50.0, y, LEFT[row]).line(320.0, y, RIGHT[row]);
    }
    let text = sheet.text();
    let expected = format!("{title}\n\n{}\n\n{}", LEFT.join(" "), RIGHT.join(" "));
    assert_eq!(text, expected);
}

#[test]
fn a_grid_of_lines_is_a_table_and_keeps_its_empty_cells() {
    let mut sheet = Sheet::new();
    for x in [50.0, 150.0, 250.0, 350.0] {
        sheet = sheet.rule(x, 100.0, x, 160.0);
    }
    for y in [100.0, 120.0, 140.0, 160.0] {
        sheet = sheet.rule(50.0, y, 350.0, y);
    }
    let sheet = sheet
        .line(55.0, 114.0, "Item")
        .line(155.0, 114.0, "Count")
        .line(255.0, 114.0, "Price")
        .line(55.0, 134.0, "Bolts")
        .line(255.0, 134.0, "3.40")
        .line(55.0, 154.0, "Nuts")
        .line(155.0, 154.0, "7");
    let blocks = sheet.blocks();
    assert_eq!(table(&blocks), [["Item", "Count", "Price"], ["Bolts", "", "3.40"], ["Nuts", "7", ""]]);
}

#[test]
fn a_cell_without_lines_inside_spans_its_columns() {
    let mut sheet = Sheet::new().rule(150.0, 120.0, 150.0, 160.0);
    for x in [50.0, 250.0] {
        sheet = sheet.rule(x, 100.0, x, 160.0);
    }
    for y in [100.0, 120.0, 140.0, 160.0] {
        sheet = sheet.rule(50.0, y, 250.0, y);
    }
    let sheet = sheet
        .line(120.0, 114.0, "Both")
        .line(55.0, 134.0, "one")
        .line(155.0, 134.0, "two")
        .line(55.0, 154.0, "three")
        .line(155.0, 154.0, "four");
    let blocks = sheet.blocks();
    let table = blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
    assert_eq!((table.rows[0][0].text.as_str(), table.rows[0][0].columns), ("Both", 2));
    assert_eq!(table.rows[1].len(), 2);
}

#[test]
fn aligned_rows_are_a_table_and_prose_around_it_is_not() {
    let sheet = Sheet::new()
        .line(50.0, 60.0, "the following table lists what was sold in the three years before the fire")
        .line(50.0, 100.0, "Year")
        .line(200.0, 100.0, "Sold")
        .line(350.0, 100.0, "Left")
        .line(50.0, 112.0, "1901")
        .line(200.0, 112.0, "12")
        .line(350.0, 112.0, "40")
        .line(50.0, 124.0, "1902")
        .line(200.0, 124.0, "15")
        .line(350.0, 124.0, "25");
    let blocks = sheet.blocks();
    assert_eq!(blocks.len(), 2);
    assert_eq!(table(&blocks), [["Year", "Sold", "Left"], ["1901", "12", "40"], ["1902", "15", "25"]]);
}

#[test]
fn items_of_a_list_are_blocks_with_a_depth() {
    let sheet = Sheet::new()
        .lines(50.0, 100.0, &["• one thing that has so much to say that it", "• another thing"])
        .lines(70.0, 124.0, &["• a part of it", "• another part"]);
    let found: Vec<(BlockKind, Option<u8>)> =
        sheet.blocks().iter().map(|block| (block.kind, block.level)).collect();
    let item = |level| (BlockKind::ListItem, Some(level));
    assert_eq!(found, [item(1), item(1), item(2), item(2)]);
}

#[test]
fn a_new_paragraph_starts_after_a_gap_and_with_an_indent() {
    let long = "a line of the paragraph that is long enough to fill the column";
    let sheet = Sheet::new()
        .lines(50.0, 100.0, &[long, long, "and its end."])
        .line(65.0, 136.0, "Then an indented line that starts another paragraph of the")
        .line(50.0, 148.0, long)
        .line(50.0, 190.0, "And one after a gap.");
    assert_eq!(sheet.blocks().len(), 3);
}

#[test]
fn a_drop_cap_belongs_to_its_word() {
    let sheet = Sheet::new().styled(50.0, 118.0, 30.0, FontStyle::default(), "O").lines(
        68.0,
        100.0,
        &["nce there was a page that began with a large", "letter, and it was read as part of its word."],
    );
    assert!(sheet.text().starts_with("Once there was"), "a drop cap stays alone");
}

#[test]
fn raised_digits_are_superscripts() {
    let sheet = Sheet::new().line(50.0, 100.0, "below 10");
    let sheet = sheet.styled(86.0, 96.0, 6.0, FontStyle::default(), "6");
    let mut content = sheet.content;
    let raised = content.lines.pop().expect("a line");
    content.lines[0].glyphs.extend(raised.glyphs);
    assert_eq!(plain_text(&read(content).blocks), "below 10⁶");
}

#[test]
fn a_line_through_words_strikes_them_out() {
    let sheet = Sheet::new().line(50.0, 100.0, "the old word stays").rule(69.0, 97.0, 107.0, 97.5);
    assert_eq!(sheet.text(), "the ~~old word~~ stays");
}

#[test]
fn a_page_that_lies_on_its_side_is_turned() {
    let mut content =
        Sheet::new().line(50.0, 100.0, "upright text").line(50.0, 130.0, "second line.").content;
    // Turned by a quarter: what was right of the page's start is now below it.
    for line in &mut content.lines {
        line.direction = Direction::Down;
        for glyph in &mut line.glyphs {
            let Area { x0, y0, x1, y1 } = glyph.area;
            glyph.area = Area::new(600.0 - y1, x0, 600.0 - y0, x1);
        }
    }
    assert_eq!(plain_text(&read(content).blocks), "upright text\n\nsecond line.");
}

#[test]
fn footnotes_follow_the_text_and_numbers_of_lines_are_left_out() {
    let mut sheet = Sheet::new();
    for row in 0..9 {
        let y = 100.0 + 70.0 * row as f32;
        sheet = sheet.line(30.0, y, &(row + 1).to_string()).line(
            60.0,
            y,
            "a line of a contract that is numbered",
        );
    }
    let sheet = sheet.styled(60.0, 750.0, 7.0, FontStyle::default(), "* the small print at the foot");
    let blocks = sheet.blocks();
    let numbers = blocks.iter().filter(|block| block.kind == BlockKind::Margin).count();
    assert_eq!(numbers, 9);
    assert!(!plain_text(&blocks).contains('9'));
}

#[test]
fn tags_make_headings_and_join_what_belongs_together() {
    let mut sheet = Sheet::new().line(50.0, 100.0, "A tagged heading").line(50.0, 130.0, "and its text");
    for (y, role, element) in [(100.0, TagRole::Heading(2), 1), (130.0, TagRole::Paragraph, 2)] {
        let area = Area::new(50.0, y - 8.0, 300.0, y + 2.0);
        sheet.content.tags.push(TaggedRun { area, role, element });
    }
    let blocks = sheet.blocks();
    assert_eq!((blocks[0].kind, blocks[0].level, blocks[0].tagged), (BlockKind::Heading, Some(2), true));
    assert_eq!(blocks[1].kind, BlockKind::Paragraph);
}

#[test]
fn odd_numbers_are_survived() {
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0] {
        let mut sheet = Sheet::new().line(50.0, 100.0, "some words").rule(odd, odd, 100.0, odd);
        for (index, glyph) in sheet.content.lines[0].glyphs.iter_mut().enumerate() {
            match index % 5 {
                0 => glyph.size = odd,
                1 => glyph.baseline = odd,
                2 => glyph.area = Area::new(odd, odd, odd, odd),
                3 => glyph.area.x1 = odd,
                _ => {}
            }
        }
        sheet.content.fills.push(Area::new(0.0, odd, odd, 50.0));
        sheet.content.images.push(Area::new(odd, 0.0, 10.0, odd));
        sheet.blocks();
        let mut page = Sheet::new().line(50.0, 100.0, "some words");
        page.content.page = Area::new(0.0, 0.0, odd, odd);
        page.blocks();
    }
}

#[test]
fn a_page_with_too_many_letters_keeps_its_lines() {
    let mut sheet = Sheet::new().line(50.0, 100.0, "repeated");
    let line = sheet.content.lines[0].clone();
    sheet.content.lines = vec![line; 10_000];
    let blocks = sheet.blocks();
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].text.lines().count(), 10_000);
}

impl Sheet {
    fn square(self, x: f32, y: f32, side: f32) -> Self {
        self.rule(x, y, x + side, y).rule(x, y + side, x + side, y + side).rule(x, y, x, y + side).rule(
            x + side,
            y,
            x + side,
            y + side,
        )
    }
}

#[test]
fn check_boxes_are_marked_or_not() {
    let mut sheet = Sheet::new()
        .square(50.0, 92.0, 9.0)
        .line(64.0, 100.0, "Married")
        .square(150.0, 92.0, 9.0)
        .line(152.0, 100.0, "✔")
        .line(164.0, 100.0, "Single")
        .square(250.0, 92.0, 9.0)
        .line(264.0, 100.0, "Widowed");
    sheet.content.marks.push(Area::new(251.0, 93.0, 258.0, 100.0));
    assert_eq!(sheet.text(), "[ ] Married [x] Single [x] Widowed");
}

#[test]
fn fields_for_letters_and_small_grids_are_no_check_boxes() {
    let letters = Sheet::new().square(50.0, 91.0, 10.0).line(52.5, 100.0, "A").line(120.0, 100.0, "Initial");
    assert!(!letters.text().contains('['));
    let grid = Sheet::new().square(50.0, 92.0, 9.0).square(59.0, 92.0, 9.0).line(80.0, 100.0, "Code");
    assert!(!grid.text().contains('['));
}

fn equations(sheet: Sheet) -> u32 {
    read(sheet.content).equations
}

#[test]
fn fractions_and_limits_are_equations() {
    let prose = Sheet::new().line(50.0, 60.0, "where α and β and γ are constants of the model");
    let fraction = prose
        .line(100.0, 100.0, "f =")
        .line(124.0, 96.0, "a")
        .rule(122.0, 98.5, 132.0, 98.5)
        .line(124.0, 107.0, "b");
    assert_eq!(equations(fraction), 1);
    let sum = Sheet::new()
        .line(50.0, 60.0, "α β γ")
        .styled(100.0, 100.0, 14.0, FontStyle::default(), "∑")
        .styled(101.0, 112.0, 6.0, FontStyle::default(), "n")
        .line(112.0, 100.0, "x");
    assert_eq!(equations(sum), 1);
}

#[test]
fn underlined_words_and_plain_symbols_are_no_equations() {
    let sheet = Sheet::new()
        .line(50.0, 100.0, "the word below is α underlined")
        .rule(72.0, 102.0, 98.0, 102.0)
        .line(50.0, 112.0, "and then β the text γ continues δ here");
    assert_eq!(equations(sheet), 0);
}
