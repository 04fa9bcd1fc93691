//! Rules of the layout on small pages made by hand.

use everypage_core::document::{Block, BlockKind, plain_text};

use super::{
    content::{Direction, Field, FieldKind, FontStyle, Glyph, GlyphLine, PageContent, TagRole, TaggedRun},
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
fn one_raised_letter_is_a_superscript_and_several_are_a_word() {
    for (raised, expected) in
        [("n", "below 10ⁿ"), ("th", "below 10th"), ("nd", "below 10nd"), ("q", "below 10q")]
    {
        let sheet = Sheet::new().line(50.0, 100.0, "below 10");
        let mut content = sheet.styled(86.0, 96.0, 6.0, FontStyle::default(), raised).content;
        let raised = content.lines.pop().expect("a line");
        content.lines[0].glyphs.extend(raised.glyphs);
        assert_eq!(plain_text(&read(content).blocks), expected);
    }
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

#[test]
fn limits_of_operators_that_hang_from_their_baseline_are_equations() {
    // A displayed sum as TeX sets it: its upper edge is at the baseline, its summand is next to its middle.
    let sum = || {
        Sheet::new()
            .line(50.0, 60.0, "α β γ")
            .styled(100.0, 100.0, 10.0, FontStyle::default(), "∑")
            .line(112.0, 109.5, "x")
    };
    let small = |sheet: Sheet, y: f32| sheet.styled(101.0, y, 7.0, FontStyle::default(), "n");
    assert_eq!(equations(sum()), 0);
    assert_eq!(equations(small(sum(), 97.8)), 1, "the upper limit");
    assert_eq!(equations(small(sum(), 120.0)), 1, "the lower limit");
    // A small letter in a line below the next one is none.
    let inline = Sheet::new().line(50.0, 100.0, "α and β with ∑ over γ in one line").line(
        50.0,
        112.0,
        "the next line of the same text continues",
    );
    let x = 50.0 + 10.0 / 2.0 * 10.0 + 3.0 * 10.0 / 3.0;
    assert_eq!(equations(inline.styled(x + 0.5, 122.0, 7.0, FontStyle::default(), "n")), 0);
}

/// A run of five rows of three short texts, which begin where `place` says.
fn rows_of_three(place: impl Fn(usize, usize) -> f32) -> Sheet {
    let texts = ["ab", "abcde", "abc", "abcdefg", "ab"];
    let mut sheet = Sheet::new();
    for row in 0..5 {
        for column in 0..3 {
            let text = texts[(row + 2 * column) % 5];
            sheet = sheet.line(place(row, column), 100.0 + 12.0 * row as f32, text);
        }
    }
    sheet
}

#[test]
fn rows_whose_columns_are_not_aligned_are_a_broken_table() {
    let ragged = |row: usize, column: usize| {
        60.0 + 160.0 * column as f32 + [0.0, 45.0, 12.0, 60.0, 80.0][(row + 3 * column) % 5]
    };
    let layout = read(rows_of_three(ragged).content);
    assert_eq!((layout.broken_tables, layout.tables.len()), (1, 0));
    let straight = read(rows_of_three(|_, column| 60.0 + 160.0 * column as f32).content);
    assert_eq!((straight.broken_tables, straight.tables.len()), (0, 1));
}

#[test]
fn rows_between_rules_without_a_common_gap_are_a_broken_table() {
    let mut sheet = Sheet::new().rule(50.0, 90.0, 450.0, 90.0).rule(50.0, 160.0, 450.0, 160.0);
    for (row, gap) in [100.0, 180.0, 260.0, 340.0].into_iter().enumerate() {
        let y = 105.0 + 14.0 * row as f32;
        sheet = sheet.line(50.0, y, &"x".repeat((gap as usize - 60) / 5)).line(
            gap,
            y,
            &"y".repeat((440 - gap as usize) / 5),
        );
    }
    assert_eq!(read(sheet.content).broken_tables, 1);
}

#[test]
fn the_row_above_the_first_rule_is_the_head_of_its_table() {
    let rows =
        [["Cargo", "2025", "2026"], ["Grain", "640", "511"], ["Timber", "388", "402"], ["Fish", "12", "14"]];
    let sheet = |head: &[&str]| {
        let mut sheet =
            Sheet::new().line(50.0, 60.0, "Tonnes by kind of cargo, in thousands, and the year before");
        for (row, cells) in std::iter::once(head).chain(rows[1..].iter().map(|row| &row[..])).enumerate() {
            let y = 100.0 + 20.0 * row as f32;
            for (column, cell) in cells.iter().enumerate() {
                sheet = sheet.line(50.0 + 120.0 * column as f32, y, cell);
            }
            sheet = sheet.rule(50.0, y + 8.0, 400.0, y + 8.0);
        }
        sheet.blocks()
    };
    assert_eq!(table(&sheet(&rows[0])), rows);
    // A heading above the table stays one.
    let blocks = sheet(&["Cargo"]);
    assert_eq!(table(&blocks), rows[1..]);
    assert!(blocks.iter().any(|block| block.text == "Cargo"));
}

#[test]
fn fields_of_a_form_have_their_labels_and_states() {
    let field = |x0: f32, y0: f32, x1: f32, kind: FieldKind, value: &str, label: &str| Field {
        area: Area::new(x0, y0, x1, y0 + 14.0),
        kind,
        value: value.into(),
        label: label.into(),
    };
    let mut sheet = Sheet::new()
        .line(50.0, 100.0, "Name")
        .line(154.0, 100.0, "Ada Holm")
        .line(50.0, 130.0, "Berth:")
        .line(50.0, 160.0, "Remarks")
        .line(170.0, 220.0, "by night")
        .line(330.0, 220.0, "by day")
        // A sign of a symbol font in the field, in one run with the label.
        .line(154.0, 250.0, "3 at noon");
    sheet.content.fields = vec![
        field(150.0, 90.0, 300.0, FieldKind::Text, "Ada Holm", ""),
        field(150.0, 120.0, 300.0, FieldKind::Text, "Quay 4", "the berth"),
        field(50.0, 164.0, 300.0, FieldKind::Text, "none", ""),
        field(400.0, 164.0, 500.0, FieldKind::Text, "7.5", "Draught"),
        field(400.0, 300.0, 500.0, FieldKind::Text, "", "Left empty"),
        field(150.0, 210.0, 164.0, FieldKind::Mark { is_on: true }, "", ""),
        field(310.0, 210.0, 324.0, FieldKind::Mark { is_on: false }, "", ""),
        field(150.0, 240.0, 161.0, FieldKind::Mark { is_on: true }, "", ""),
    ];
    let text = sheet.text();
    for expected in [
        "Name: Ada Holm",
        "Berth: Quay 4",
        "Remarks: none",
        "Draught: 7.5",
        "[x] by night",
        "[ ] by day",
        "[x] at noon",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.matches("Ada Holm").count(), 1, "{text}");
    assert!(!text.contains("Left empty") && !text.contains("the berth"), "{text}");
}

#[test]
fn numbered_lines_of_code_in_a_frame_are_no_table() {
    let mono = FontStyle { mono: true, ..FontStyle::default() };
    let listing = |style: FontStyle| {
        let mut sheet =
            Sheet::new().line(50.0, 60.0, "this is what the program looks like when it is written down");
        for y in [96.0, 146.0] {
            sheet = sheet.rule(50.0, y, 400.0, y);
        }
        for x in [50.0, 70.0, 400.0] {
            sheet = sheet.rule(x, 96.0, x, 146.0);
        }
        let lines = ["letters = 'A' + first", "numbers = 7", "print letters", "print numbers + seven"];
        for (index, line) in lines.into_iter().enumerate() {
            let y = 106.0 + 12.0 * index as f32;
            sheet = sheet.line(56.0, y, &(index + 1).to_string()).styled(76.0, y, 10.0, style, line);
        }
        sheet.blocks()
    };
    let blocks = listing(mono);
    assert!(blocks.iter().all(|block| block.table.is_none()));
    let code = blocks.iter().find(|block| block.kind == BlockKind::Code).expect("code");
    assert!(code.text.starts_with("letters = 'A' + first\nnumbers = 7\n"), "{}", code.text);
    assert_eq!(blocks.iter().filter(|block| block.kind == BlockKind::Margin).count(), 4);
}

#[test]
fn references_with_tags_are_no_table() {
    let mut sheet =
        Sheet::new().line(50.0, 60.0, "what has been written about the harbour before this report");
    for (row, (tag, text)) in
        [("[Hol01]", "B. Holm, Ships"), ("[Cop87]", "D. Cope, Music"), ("[Eng12]", "A. Engel, Tides")]
            .into_iter()
            .enumerate()
    {
        let y = 100.0 + 12.0 * row as f32;
        sheet = sheet.line(50.0, y, tag).line(120.0, y, text);
    }
    assert!(sheet.blocks().iter().all(|block| block.table.is_none()));
}

#[test]
fn a_label_and_what_is_written_on_its_line_are_one_text() {
    let form = Sheet::new()
        .line(50.0, 100.0, "Name:")
        .line(200.0, 99.0, "Ada Holm")
        .rule(150.0, 102.0, 300.0, 102.0)
        .line(320.0, 100.0, "Born:")
        .line(400.0, 100.0, "1901")
        .rule(370.0, 102.0, 480.0, 102.0)
        .line(50.0, 130.0, "Street and number:")
        .line(200.0, 130.0, "Quay 1")
        .rule(150.0, 132.0, 300.0, 132.0)
        .text();
    for expected in ["Name: Ada Holm", "Born: 1901", "Street and number: Quay 1"] {
        assert!(form.contains(expected), "{form}");
    }
    // A line under both is the rule of a table.
    let mut sheet = Sheet::new();
    for (row, (label, value)) in
        [("Grain:", "640"), ("Timber:", "388"), ("Fish:", "12")].into_iter().enumerate()
    {
        let y = 100.0 + 20.0 * row as f32;
        sheet = sheet.line(50.0, y, label).line(250.0, y, value).rule(50.0, y + 3.0, 400.0, y + 3.0);
    }
    assert_eq!(table(&sheet.blocks()), [["Grain:", "640"], ["Timber:", "388"], ["Fish:", "12"]]);
}

#[test]
fn labels_in_a_grid_of_empty_cells_are_a_broken_form() {
    let grid = |columns: usize, rows: usize, labels: usize| {
        let (right, bottom) = (50.0 + 40.0 * columns as f32, 100.0 + 20.0 * rows as f32);
        let mut sheet = Sheet::new();
        for column in 0..=columns {
            let x = 50.0 + 40.0 * column as f32;
            sheet = sheet.rule(x, 100.0, x, bottom);
        }
        for row in 0..=rows {
            let y = 100.0 + 20.0 * row as f32;
            sheet = sheet.rule(50.0, y, right, y);
        }
        for label in 0..labels {
            let (column, row) = (label % 2 * 4, label / 2);
            sheet = sheet.line(54.0 + 40.0 * column as f32, 114.0 + 20.0 * row as f32, "Name");
        }
        read(sheet.content)
    };
    assert_eq!(grid(10, 6, 8).broken_forms, 1);
    assert_eq!(grid(10, 6, 3).broken_forms, 0, "graph paper with a few words");
    let filled = grid(5, 4, 8);
    assert_eq!((filled.broken_forms, filled.tables.len()), (0, 1));
}

const GLOSSARY: [[&str; 3]; 4] = [
    ["term", "word", "meaning"],
    ["job", "request", "one accepted request with its options and|the document it is about, until it ends"],
    [
        "page",
        "leaf",
        "one page under its own number, which is|counted from the first one of the file|and never changes",
    ],
    ["range", "chunk", "some pages that are read one after the|other by one worker"],
];

/// Rows of a table without lines, whose cells have several lines; returns its bottom too.
fn glossary(mut sheet: Sheet, left: f32, top: f32) -> (Sheet, f32) {
    let mut y = top;
    for row in GLOSSARY {
        let mut lines = 1;
        for (column, cell) in row.into_iter().enumerate() {
            let x = left + [0.0, 50.0, 100.0][column];
            for (index, line) in cell.split('|').enumerate() {
                sheet = sheet.line(x, y + 12.0 * index as f32, line);
                lines = lines.max(index + 1);
            }
        }
        y += 12.0 * lines as f32 + 6.0;
    }
    (sheet, y)
}

fn joined() -> Vec<Vec<String>> {
    GLOSSARY.iter().map(|row| row.iter().map(|cell| cell.replace('|', " ")).collect()).collect()
}

#[test]
fn cells_of_several_lines_are_joined_where_rows_are_apart() {
    let prose = "the words below are those that are used on every page of this text, in their order";
    let sheet = Sheet::new().line(50.0, 60.0, prose);
    let blocks = glossary(sheet, 50.0, 100.0).0.blocks();
    assert_eq!(table(&blocks), joined());
    assert_eq!(blocks.iter().filter(|block| block.table.is_some()).count(), 1);
}

#[test]
fn a_table_in_one_of_two_columns_does_not_join_them() {
    let (mut sheet, bottom) = glossary(Sheet::new(), 40.0, 100.0);
    for row in 0..12 {
        let line = [
            "the second column has its own",
            "lines, which run on and on and",
            "are never part of the table",
        ][row % 3];
        sheet = sheet.line(360.0, 105.0 + 13.0 * row as f32, line);
    }
    for row in 0..4 {
        sheet = sheet.line(
            40.0,
            bottom + 20.0 + 12.0 * row as f32,
            "a line below the table that is as wide as it",
        );
    }
    let blocks = sheet.blocks();
    assert_eq!(table(&blocks), joined());
    let second =
        blocks.iter().position(|block| block.text.starts_with("the second column")).expect("a paragraph");
    assert!(blocks[..second].iter().any(|block| block.text.starts_with("a line below the table")));
}

/// A table of which every second row is filled, cell by cell.
fn striped(rows: &[[&str; 3]]) -> Sheet {
    let mut sheet = Sheet::new();
    for (index, row) in rows.iter().enumerate() {
        let y = 100.0 + 20.0 * index as f32;
        for (column, cell) in row.iter().enumerate() {
            let x = 50.0 + 100.0 * column as f32;
            if index % 2 == 0 {
                sheet.content.fills.push(Area::new(x, y, x + 100.0, y + 20.0));
            }
            sheet = sheet.line(x + 5.0, y + 14.0, cell);
        }
    }
    sheet
}

#[test]
fn rows_that_are_filled_by_turns_are_one_table() {
    let rows = [
        ["Cargo", "Tonnes", "Berth"],
        ["Grain", "640", "north quay"],
        ["Timber", "388", "south quay"],
        ["Fish", "12", "market"],
    ];
    for count in [3, 4] {
        let blocks = striped(&rows[..count]).blocks();
        assert_eq!(table(&blocks), rows[..count]);
        let found = blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
        assert_eq!(found.header_rows, 1);
    }
}

#[test]
fn a_head_over_two_columns_spans_them() {
    let sheet = Sheet::new()
        .line(50.0, 60.0, "the following table lists what was sold in the three years before the fire")
        .line(200.0, 100.0, "Cargo that was sold at sea")
        .line(50.0, 112.0, "Year")
        .line(200.0, 112.0, "Sold")
        .line(300.0, 112.0, "Left");
    let mut sheet = sheet;
    for row in 0..9 {
        let y = 124.0 + 12.0 * row as f32;
        sheet = sheet.line(50.0, y, &(1901 + row).to_string()).line(200.0, y, &(12 + row).to_string()).line(
            300.0,
            y,
            &(40 + row).to_string(),
        );
    }
    let blocks = sheet.line(50.0, 300.0, "and this is the text below it").blocks();
    let table = blocks.iter().find_map(|block| block.table.as_ref()).expect("a table");
    assert_eq!(table.header_rows, 2);
    assert_eq!((table.rows[0][1].columns, table.rows[0][1].text.as_str()), (2, "Cargo that was sold at sea"));
}

#[test]
fn the_less_a_table_is_aligned_the_lower_is_its_confidence() {
    let straight = read(rows_of_three(|_, column| 60.0 + 160.0 * column as f32).content);
    let shifted = read(
        rows_of_three(|row, column| {
            60.0 + 160.0 * column as f32 + if row >= 3 { 30.0 * (row - 2) as f32 } else { 0.0 }
        })
        .content,
    );
    let (straight, shifted) =
        (straight.weakest_table.expect("a table"), shifted.weakest_table.expect("a table"));
    assert!(shifted < straight && straight > 0.9, "{shifted} {straight}");
}

#[test]
fn a_value_of_several_lines_stays_with_its_label() {
    let mut sheet =
        Sheet::new().line(50.0, 100.0, "Remarks").lines(154.0, 100.0, &["to be unloaded", "by night only"]);
    sheet.content.fields = vec![Field {
        area: Area::new(150.0, 90.0, 300.0, 120.0),
        kind: FieldKind::Text,
        value: "to be unloaded\nby night only".into(),
        label: String::new(),
    }];
    assert_eq!(sheet.text(), "Remarks: to be unloaded by night only");
}

impl Sheet {
    /// A line that is written from right to left, which ends at `x`: its letters come in the order of reading.
    fn leftward(mut self, x: f32, y: f32, text: &str) -> Self {
        let mut line = GlyphLine::default();
        let mut at = x;
        for c in text.chars() {
            if c == ' ' {
                at -= 3.3;
                continue;
            }
            let area = Area::new(at - 5.0, y - 8.0, at, y + 2.0);
            let style = FontStyle::default();
            line.glyphs.push(Glyph { c, area, baseline: y, size: 10.0, is_synthetic: false, style });
            at -= 5.0;
        }
        self.content.lines.push(line);
        self
    }
}

#[test]
fn text_from_right_to_left_keeps_its_words_and_reads_the_right_column_first() {
    assert_eq!(Sheet::new().leftward(550.0, 100.0, "שלום עולם").text(), "שלום עולם");
    let (right, left) = ("הטור הימני הוא הראשון בדף הזה", "הטור השמאלי נקרא רק אחרי שהימני נגמר");
    let mut sheet = Sheet::new();
    for row in 0..5 {
        let y = 100.0 + 12.0 * row as f32;
        sheet = sheet.leftward(550.0, y, right).leftward(280.0, y, left);
    }
    let text = sheet.text();
    let place = |word: &str| text.find(word).expect("both columns are read");
    assert!(place("הימני הוא") < place("השמאלי"), "{text}");
    assert_eq!(text.matches("הראשון בדף הזה").count(), 5);
}

#[test]
fn a_heading_between_two_tables_is_in_neither() {
    let rows = |mut sheet: Sheet, top: f32, first: u32| {
        for row in 0..4 {
            let y = top + 12.0 * row as f32;
            for column in 0..3 {
                sheet = sheet.line(
                    50.0 + 120.0 * column as f32,
                    y,
                    &(first + 3 * row * row + 20 * column).to_string(),
                );
            }
        }
        sheet
    };
    let sheet = rows(Sheet::new(), 100.0, 11);
    let sheet =
        sheet.styled(50.0, 160.0, 13.0, FontStyle { bold: true, ..FontStyle::default() }, "Second part");
    let blocks = rows(sheet, 182.0, 61).blocks();
    assert_eq!(blocks.iter().filter(|block| block.table.is_some()).count(), 2);
    assert!(blocks.iter().any(|block| block.text == "Second part"));
}
