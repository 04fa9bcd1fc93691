//! A page's text in reading order, from MuPDF's structured text.
//!
//! MuPDF returns blocks of lines in the order of the page's content stream. On top of that, fragments
//! of one visual line are joined, columns written across the gutter are separated, and words
//! hyphenated at a line's end are rejoined.

use mupdf::{DisplayList, TextLine, TextPageFlags, text_page::TextBlockType};

use super::{geometry::Area, text_quality::CharacterCounts};

/// A gap of more line heights separates columns of a table.
const MAX_WORD_GAP_HEIGHTS: f32 = 1.5;
/// Prose columns have at least this many rows next to each other, with lines of this many characters.
const MIN_COLUMN_ROWS: usize = 3;
const MIN_COLUMN_CHARACTERS: usize = 18;

#[derive(Default)]
pub(crate) struct TextLayer {
    pub text: String,
    pub lines: Vec<Area>,
    pub characters: CharacterCounts,
}

/// Does not show the text, which must not reach a log.
impl std::fmt::Debug for TextLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextLayer({} bytes, {} lines)", self.text.len(), self.lines.len())
    }
}

impl TextLayer {
    pub fn extract(list: &DisplayList) -> Result<Self, mupdf::Error> {
        // Without PRESERVE_LIGATURES, ligatures become letters. CLIP leaves out invisible text: outside
        // of the page, and past the end of a spreadsheet's cell. It is worth its fifth of the time.
        let structured = list.to_text_page(TextPageFlags::CLIP)?;
        let mut layer = Self::default();
        let mut rows: Vec<Row> = Vec::new();
        for (block, content) in structured.blocks().enumerate() {
            if content.r#type() != TextBlockType::Text {
                continue;
            }
            for line in content.lines() {
                if let Some(piece) = Piece::read(&line, &mut layer.characters) {
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
        layer.text = write(separate_columns(rows));
        Ok(layer)
    }
}

/// A line as MuPDF defines it: characters on one baseline without a wide gap.
struct Piece {
    text: String,
    area: Area,
    is_horizontal: bool,
}

impl Piece {
    fn read(line: &TextLine<'_>, characters: &mut CharacterCounts) -> Option<Self> {
        let mut text = String::new();
        let mut is_horizontal = true;
        for (index, item) in line.chars().enumerate() {
            let c = item.char().unwrap_or(char::REPLACEMENT_CHARACTER);
            characters.count(c);
            if index == 0 {
                let quad = item.quad();
                is_horizontal = (quad.ur.x - quad.ul.x).abs() >= (quad.ur.y - quad.ul.y).abs();
            }
            match c {
                '\t' => text.push(' '),
                c if c.is_control() => {}
                c => text.push(c),
            }
        }
        text.truncate(text.trim_end().len());
        let area = Area::from(line.bounds());
        (!text.trim_start().is_empty()).then_some(Self { text, area, is_horizontal })
    }
}

/// The pieces of one visual line.
struct Row {
    block: usize,
    pieces: Vec<Piece>,
}

impl Row {
    fn is_continued_by(&self, next: &Piece) -> bool {
        self.pieces.last().is_some_and(|last| {
            let overlap = last.area.y1.min(next.area.y1) - last.area.y0.max(next.area.y0);
            last.is_horizontal
                && next.is_horizontal
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
                joined.push(if gap > MAX_WORD_GAP_HEIGHTS * end.height() { '\t' } else { ' ' });
            }
            joined.push_str(&piece.text);
            end = Some(&piece.area);
        }
        joined
    }

    fn area(&self) -> Area {
        self.pieces.iter().fold(Area::empty(), |all, piece| all.union(&piece.area))
    }
}

/// Turns rows written across a gutter into the left column, then the right one. Tables stay in rows:
/// their cells are short.
fn separate_columns(rows: Vec<Row>) -> Vec<Row> {
    let mut separated = Vec::with_capacity(rows.len());
    let mut run: Vec<Row> = Vec::new();
    for row in rows {
        let has_two_pieces = row.pieces.len() == 2;
        if !has_two_pieces || run.last().is_some_and(|last| !share_gutter(last, &row)) {
            end_run(&mut run, &mut separated);
        }
        if has_two_pieces { run.push(row) } else { separated.push(row) }
    }
    end_run(&mut run, &mut separated);
    separated
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

fn end_run(run: &mut Vec<Row>, separated: &mut Vec<Row>) {
    let rows = std::mem::take(run);
    let characters = |side: usize| -> usize {
        rows.iter().filter_map(|row| row.pieces.get(side)).map(|piece| piece.text.chars().count()).sum()
    };
    let is_prose = |side| characters(side) >= MIN_COLUMN_CHARACTERS * rows.len();
    if rows.len() < MIN_COLUMN_ROWS || !is_prose(0) || !is_prose(1) {
        separated.extend(rows);
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
    separated.extend(left);
    separated.extend(right);
}

/// Joins rows into text: lines end in a newline and blocks in an empty line.
fn write(rows: Vec<Row>) -> String {
    let mut text = String::new();
    let mut above: Option<(usize, Area)> = None;
    for row in rows {
        let (line, area) = (row.text(), row.area());
        if let Some((block, last)) = above {
            let is_same_block = block == row.block && area.y0 >= last.y0;
            if is_same_block && is_hyphenated(&text, &line) {
                text.pop();
            } else {
                text.push_str(if is_same_block { "\n" } else { "\n\n" });
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

/// Whether a word continues on the next line: `exam-` and `ple` are one word; `1990-` and `1995`, or
/// `Jean-` and `Paul`, are not.
fn is_hyphenated(text: &str, next: &str) -> bool {
    let mut ending = text.chars().rev();
    let has_hyphen = matches!(ending.next(), Some('-' | '\u{2010}' | '\u{ad}'));
    has_hyphen && ending.next().is_some_and(char::is_alphabetic) && next.starts_with(char::is_lowercase)
}
