//! A page's text in reading order, from MuPDF's structured text.
//!
//! MuPDF gives blocks of lines in the order in which the page was written. On top of that, pieces of
//! one visual line are joined, columns that were written across the gutter are taken apart, and
//! words broken at a line's end are made whole.

use mupdf::{DisplayList, TextLine, TextPageFlags, text_page::TextBlockType};

use super::{geometry::Area, legible::Letters};

/// A wider step than this many line heights is another column of a table.
const TAB_HEIGHTS: f32 = 1.5;
/// Prose columns have at least this many rows side by side, and lines of this many letters.
const COLUMN_ROWS: usize = 3;
const COLUMN_LETTERS: usize = 18;

#[derive(Default)]
pub(crate) struct TextLayer {
    pub text: String,
    pub lines: Vec<Area>,
    pub letters: Letters,
}

/// Says nothing of the words: text must not reach a log.
impl std::fmt::Debug for TextLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextLayer({} bytes, {} lines)", self.text.len(), self.lines.len())
    }
}

impl TextLayer {
    pub fn extract(list: &DisplayList) -> Result<Self, mupdf::Error> {
        // Without PRESERVE_LIGATURES they come out as letters. CLIP leaves out what can't be seen: text
        // beside the page, and what spreadsheets write past the end of a cell. It takes a fifth of
        // the time, well spent.
        let structured = list.to_text_page(TextPageFlags::CLIP)?;
        let mut layer = Self::default();
        let mut rows: Vec<Row> = Vec::new();
        for (block, content) in structured.blocks().enumerate() {
            if content.r#type() != TextBlockType::Text {
                continue;
            }
            for line in content.lines() {
                if let Some(piece) = Piece::read(&line, &mut layer.letters) {
                    layer.lines.push(piece.area);
                    match rows.last_mut() {
                        Some(row) if row.block == block && row.is_continued_by(&piece) => {
                            row.pieces.push(piece)
                        }
                        _ => rows.push(Row { block, pieces: vec![piece] }),
                    }
                }
            }
        }
        layer.text = write(part_columns(rows));
        Ok(layer)
    }
}

/// What MuPDF calls a line: letters on one baseline without a wide gap.
struct Piece {
    text: String,
    area: Area,
    level: bool,
}

impl Piece {
    fn read(line: &TextLine<'_>, letters: &mut Letters) -> Option<Self> {
        let mut text = String::new();
        let mut level = true;
        for (index, item) in line.chars().enumerate() {
            let c = item.char().unwrap_or(char::REPLACEMENT_CHARACTER);
            letters.count(c);
            if index == 0 {
                let quad = item.quad();
                level = (quad.ur.x - quad.ul.x).abs() >= (quad.ur.y - quad.ul.y).abs();
            }
            match c {
                '\t' => text.push(' '),
                c if c.is_control() => {}
                c => text.push(c),
            }
        }
        text.truncate(text.trim_end().len());
        let area = Area::from(line.bounds());
        (!text.trim_start().is_empty()).then_some(Self { text, area, level })
    }
}

/// The pieces that stand side by side.
struct Row {
    block: usize,
    pieces: Vec<Piece>,
}

impl Row {
    fn is_continued_by(&self, next: &Piece) -> bool {
        self.pieces.last().is_some_and(|last| {
            let overlap = last.area.y1.min(next.area.y1) - last.area.y0.max(next.area.y0);
            last.level
                && next.level
                && next.area.x0 >= last.area.x1 - 1.0
                && overlap >= 0.6 * last.area.height().min(next.area.height())
        })
    }

    fn text(&self) -> String {
        let mut joined = String::new();
        let mut end: Option<&Area> = None;
        for piece in &self.pieces {
            if let Some(end) = end {
                let gap = piece.area.x0 - end.x1;
                joined.push(if gap > TAB_HEIGHTS * end.height() { '\t' } else { ' ' });
            }
            joined.push_str(&piece.text);
            end = Some(&piece.area);
        }
        joined
    }

    fn area(&self) -> Area {
        self.pieces.iter().fold(Area::nothing(), |all, piece| all.union(&piece.area))
    }
}

/// Rows written across a gutter become the left column, then the right one. Tables stay in rows:
/// their cells are short.
fn part_columns(rows: Vec<Row>) -> Vec<Row> {
    let mut parted = Vec::with_capacity(rows.len());
    let mut run: Vec<Row> = Vec::new();
    for row in rows {
        let side_by_side = row.pieces.len() == 2;
        if !side_by_side || run.last().is_some_and(|last| !share_gutter(last, &row)) {
            end_run(&mut run, &mut parted);
        }
        if side_by_side { run.push(row) } else { parted.push(row) }
    }
    end_run(&mut run, &mut parted);
    parted
}

fn share_gutter(above: &Row, below: &Row) -> bool {
    match (above.pieces.as_slice(), below.pieces.as_slice()) {
        ([_, right], [left, below_right]) => {
            (right.area.x0 - below_right.area.x0).abs() < 12.0
                && left.area.x1 < right.area.x0
                && below_right.area.y0 > right.area.y0
        }
        _ => false,
    }
}

fn end_run(run: &mut Vec<Row>, parted: &mut Vec<Row>) {
    let rows = std::mem::take(run);
    let letters = |side: usize| -> usize {
        rows.iter().filter_map(|row| row.pieces.get(side)).map(|piece| piece.text.chars().count()).sum()
    };
    let prose = |side| letters(side) >= COLUMN_LETTERS * rows.len();
    if rows.len() < COLUMN_ROWS || !prose(0) || !prose(1) {
        parted.extend(rows);
        return;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for row in rows {
        let block = row.block;
        for (side, piece) in row.pieces.into_iter().enumerate() {
            let column = if side == 0 { &mut left } else { &mut right };
            column.push(Row { block, pieces: vec![piece] });
        }
    }
    parted.extend(left);
    parted.extend(right);
}

/// Lines end in a newline and blocks in an empty line.
fn write(rows: Vec<Row>) -> String {
    let mut text = String::new();
    let mut above: Option<(usize, Area)> = None;
    for row in rows {
        let (line, area) = (row.text(), row.area());
        if let Some((block, last)) = above {
            let continues = block == row.block && area.y0 >= last.y0;
            if continues && is_broken_word(&text, &line) {
                text.pop();
            } else {
                text.push_str(if continues { "\n" } else { "\n\n" });
            }
        }
        text.push_str(&line);
        above = Some((row.block, area));
    }
    if text.ends_with('\u{ad}') {
        text.pop();
    }
    text.retain(|c| c != '\u{ad}');
    text
}

/// `exam-` and `ple` are one word; `1990-` and `1995`, or `Jean-` and `Paul`, are not.
fn is_broken_word(text: &str, next: &str) -> bool {
    let mut ending = text.chars().rev();
    let hyphen = matches!(ending.next(), Some('-' | '\u{2010}' | '\u{ad}'));
    hyphen && ending.next().is_some_and(char::is_alphabetic) && next.starts_with(char::is_lowercase)
}
