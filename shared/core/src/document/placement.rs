//! Where the words of a text are on its page: found by comparing it with the words that OCR knows there.
//!
//! ```text
//! text of the result ─┐ tokens   ┌ equal words: their boxes
//!                     ├─ diff ──>├ moved passages: found by a second diff of what is left
//! words of OCR ───────┘          ├ words read differently: the boxes of what OCR read there, by letters
//!                                └ words that OCR has not: the room between their neighbours
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::{PageBox, PageWord};

/// More words of one page are not compared; the rest of its text has no place of its own.
const MAX_TOKENS: usize = 6_000;
/// So many equal words in a row are the same passage, wherever it stands.
const MIN_PASSAGE: usize = 3;
/// What OCR read differently has at most this many times its letters, else it is something else.
const MAX_GROWTH: usize = 2;
/// A gap between lines in which other text fits, in points.
const MIN_GAP: i32 = 8;

/// A part of a page's text, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerSpan {
    /// Words of one line, each in its box. A space after a word is part of its text.
    Line {
        words: Vec<(String, PageBox)>,
        /// How often the page must be turned by 90 degrees clockwise to have the line upright.
        turns: u8,
    },
    /// Text that is somewhere in a box; without one, anywhere on the page.
    Text { text: String, area: Option<PageBox> },
}

impl LayerSpan {
    /// The text of the span, in parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (words, whole) = match self {
            Self::Line { words, .. } => (words.as_slice(), None),
            Self::Text { text, .. } => (&[][..], Some(text.as_str())),
        };
        words.iter().map(|(text, _)| text.as_str()).chain(whole)
    }
}

/// Places the words of `text` on a page where OCR found the words `known`: every word once, in the order of the text.
pub fn place(text: &str, known: &[PageWord]) -> Vec<LayerSpan> {
    let mut tokens = tokens(text);
    let rest = tokens.split_off(tokens.len().min(MAX_TOKENS));
    let pieces: Vec<Piece> = known.iter().flat_map(pieces).take(MAX_TOKENS).collect();
    let places = Matching::new(&tokens, &pieces).places();
    let mut spans = spans(&tokens, &places, &pieces);
    if !rest.is_empty() {
        spans.push(LayerSpan::Text { text: joined(&rest), area: None });
    }
    spans
}

/// A word of the text, or a character of a script without spaces.
#[derive(Debug)]
struct Token {
    text: String,
    key: String,
    is_last_of_word: bool,
}

/// A known word or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    area: PageBox,
    line: u32,
    turns: u8,
}

#[derive(Debug)]
struct Piece {
    key: String,
    letters: usize,
    place: Place,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let parts = parts(word);
        let last = parts.len().saturating_sub(1);
        tokens.extend(parts.into_iter().enumerate().map(|(index, part)| Token {
            text: part.to_owned(),
            key: key(part),
            is_last_of_word: index == last,
        }));
    }
    tokens
}

fn joined(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        text.push_str(&token.text);
        if token.is_last_of_word {
            text.push(' ');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Divides a word before and after each character of a script that is written without spaces.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut was_alone = false;
    for (at, c) in word.char_indices() {
        let is_alone = matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
        if at > start && (is_alone || was_alone) {
            parts.extend(word.get(start..at));
            start = at;
        }
        was_alone = is_alone;
    }
    parts.extend(word.get(start..));
    parts
}

/// What two readings of a word have in common: letters and digits, without case and accents.
fn key(word: &str) -> String {
    let plain = word.nfkd().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c));
    let key: String = plain.flat_map(char::to_lowercase).collect();
    if key.is_empty() { word.to_owned() } else { key }
}

fn pieces(word: &PageWord) -> impl Iterator<Item = Piece> {
    let parts = parts(&word.text);
    let all = word.text.chars().count();
    let mut before = 0;
    parts.into_iter().map(move |part| {
        let letters = part.chars().count();
        let area = section(word.area, word.turns, (before, before + letters), all);
        before += letters;
        Piece { key: key(part), letters, place: Place { area, line: word.line, turns: word.turns } }
    })
}

/// The part of a word's box in which its letters `from..to` of `all` are.
fn section(area: PageBox, turns: u8, (from, to): (usize, usize), all: usize) -> PageBox {
    let PageBox([left, top, right, bottom]) = area;
    let at = |start: i32, end: i32, letters: usize| {
        let share = letters as f64 / all.max(1) as f64;
        start + (f64::from(end - start) * share).round() as i32
    };
    PageBox(match turns % 4 {
        0 => [at(left, right, from), top, at(left, right, to), bottom],
        1 => [left, at(bottom, top, to), right, at(bottom, top, from)],
        2 => [at(right, left, to), top, at(right, left, from), bottom],
        _ => [left, at(top, bottom, from), right, at(top, bottom, to)],
    })
}

/// Which piece each token is.
struct Matching<'a> {
    tokens: &'a [Token],
    pieces: &'a [Piece],
    /// By token.
    found: Vec<Option<usize>>,
    /// By piece.
    is_taken: Vec<bool>,
}

impl<'a> Matching<'a> {
    fn new(tokens: &'a [Token], pieces: &'a [Piece]) -> Self {
        let (found, is_taken) = (vec![None; tokens.len()], vec![false; pieces.len()]);
        let mut matching = Self { tokens, pieces, found, is_taken };
        // What is in the same order on both sides, then passages that were moved, then words between them.
        for _ in 0..2 {
            matching.match_equal(0..tokens.len(), 0..pieces.len(), MIN_PASSAGE);
        }
        for (tokens, pieces) in matching.gaps() {
            matching.match_equal(tokens, pieces, 1);
        }
        matching
    }

    /// Matches runs of at least `min` equal words among those that have no match yet.
    fn match_equal(&mut self, tokens: Range<usize>, pieces: Range<usize>, min: usize) {
        let tokens: Vec<usize> = tokens.filter(|token| self.found[*token].is_none()).collect();
        let pieces: Vec<usize> = pieces.filter(|piece| !self.is_taken[*piece]).collect();
        let token_keys: Vec<&str> = tokens.iter().map(|at| self.tokens[*at].key.as_str()).collect();
        let piece_keys: Vec<&str> = pieces.iter().map(|at| self.pieces[*at].key.as_str()).collect();
        for change in capture_diff_slices(Algorithm::Myers, &piece_keys, &token_keys) {
            let DiffOp::Equal { old_index, new_index, len } = change else { continue };
            if len < min {
                continue;
            }
            for next in 0..len {
                let (piece, token) = (pieces[old_index + next], tokens[new_index + next]);
                self.found[token] = Some(piece);
                self.is_taken[piece] = true;
            }
        }
    }

    /// Runs of tokens without a match, each with the pieces between its neighbours.
    fn gaps(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut gaps = Vec::new();
        let mut start = 0;
        while start < self.tokens.len() {
            let next = (start..self.tokens.len()).find(|at| self.found[*at].is_some());
            let end = next.unwrap_or(self.tokens.len());
            if end > start {
                let before = start.checked_sub(1).and_then(|before| self.found[before]);
                let from = before.map_or(0, |piece| piece + 1);
                let taken = (from..self.pieces.len()).find(|piece| self.is_taken[*piece]);
                let next = next.and_then(|next| self.found[next]).filter(|next| *next >= from);
                gaps.push((start..end, from..next.or(taken).unwrap_or(self.pieces.len())));
            }
            start = end + 1;
        }
        gaps
    }

    /// Where each token is: at its piece, or where OCR read something else between the same neighbours.
    fn places(&self) -> Vec<Option<Place>> {
        let mut places: Vec<Option<Place>> =
            self.found.iter().map(|piece| piece.map(|piece| self.pieces[piece].place)).collect();
        for (tokens, pieces) in self.gaps() {
            self.place_gap(tokens, pieces, &mut places);
        }
        places
    }

    /// Spreads tokens over the free pieces of a gap by their letters.
    fn place_gap(&self, tokens: Range<usize>, pieces: Range<usize>, places: &mut [Option<Place>]) {
        let free: Vec<&Piece> =
            pieces.filter(|piece| !self.is_taken[*piece]).map(|piece| &self.pieces[piece]).collect();
        let letters = |token: &Token| token.text.chars().count();
        let known: usize = free.iter().map(|piece| piece.letters).sum();
        let wanted: usize = self.tokens[tokens.clone()].iter().map(letters).sum();
        if known == 0 || wanted > known * MAX_GROWTH + 2 {
            return;
        }
        let share = |letters: usize| letters as f64 * known as f64 / wanted.max(1) as f64;
        let mut before = 0;
        for token in tokens {
            let count = letters(&self.tokens[token]);
            places[token] = spread(&free, share(before), share(before + count));
            before += count;
        }
    }
}

/// The place of the letters `from..to` of the pieces, on the line that has most of them.
fn spread(pieces: &[&Piece], from: f64, to: f64) -> Option<Place> {
    let mut best: Option<(f64, Place)> = None;
    let mut start = 0.0;
    for piece in pieces {
        let end = start + piece.letters as f64;
        let (first, last) = (from.max(start), to.min(end));
        if last > first {
            let whole = piece.letters.max(1);
            // In thousandths of the piece.
            let at = |letter: f64| ((letter - start) / whole as f64 * 1000.0).round() as usize;
            let Place { area, line, turns } = piece.place;
            let place = Place { area: section(area, turns, (at(first), at(last)), 1000), line, turns };
            best = Some(match best {
                Some((letters, of)) if (of.line, of.turns) == (line, turns) => {
                    (letters + last - first, Place { area: union(of.area, place.area), ..of })
                }
                Some((letters, of)) if letters >= last - first => (letters, of),
                _ => (last - first, place),
            });
        }
        start = end;
    }
    best.map(|(_, place)| place)
}

fn union(one: PageBox, other: PageBox) -> PageBox {
    PageBox([
        one.left().min(other.left()),
        one.top().min(other.top()),
        one.right().max(other.right()),
        one.bottom().max(other.bottom()),
    ])
}

fn spans(tokens: &[Token], places: &[Option<Place>], pieces: &[Piece]) -> Vec<LayerSpan> {
    let body = pieces.iter().map(|piece| piece.place.area).reduce(union);
    let mut spans = Vec::new();
    let mut start = 0;
    while let Some(first) = places.get(start) {
        let is_same = |place: &Option<Place>| match (place, first) {
            (Some(place), Some(first)) => (place.line, place.turns) == (first.line, first.turns),
            (None, None) => true,
            _ => false,
        };
        let end = start + places[start..].iter().take_while(|place| is_same(place)).count();
        let run = &tokens[start..end];
        spans.push(match first {
            Some(Place { turns, .. }) => {
                let boxes = places[start..end].iter().flatten().map(|place| place.area);
                let words = run.iter().zip(boxes).map(|(token, area)| (with_space(token), area)).collect();
                LayerSpan::Line { words, turns: *turns }
            }
            None => {
                let before = start.checked_sub(1).and_then(|before| places[before]);
                let after = places.get(end).copied().flatten();
                LayerSpan::Text { text: joined(run), area: room(before, after, body) }
            }
        });
        start = end;
    }
    spans
}

fn with_space(token: &Token) -> String {
    let mut text = token.text.clone();
    if token.is_last_of_word {
        text.push(' ');
    }
    text
}

/// Where text is that OCR has not: between the lines of its neighbours, else between them on their line.
fn room(before: Option<Place>, after: Option<Place>, body: Option<PageBox>) -> Option<PageBox> {
    let body = body?;
    let (left, right) = (body.left(), body.right());
    let end = |place: Place| place.area.bottom();
    match (before, after) {
        (Some(before), _) if before.turns != 0 => Some(before.area),
        (_, Some(after)) if after.turns != 0 => Some(after.area),
        (Some(before), Some(after)) if after.area.top() - end(before) >= MIN_GAP => {
            Some(PageBox([left, end(before), right, after.area.top()]))
        }
        (Some(before), None) => {
            Some(PageBox([left, end(before), right, end(before) + body.height() / 4 + MIN_GAP]))
        }
        (None, Some(after)) => {
            let top = (after.area.top() - body.height() / 4 - MIN_GAP).max(0);
            Some(PageBox([left, top, right, after.area.top().max(top + 1)]))
        }
        (Some(before), after) => {
            let PageBox([_, top, from, bottom]) = before.area;
            let next = after.filter(|after| after.line == before.line && after.area.left() > from + 3);
            let to = next.map_or(right.max(from + MIN_GAP), |next| next.area.left());
            Some(PageBox([from, top, to, bottom]))
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of lines of 10 points, 12 apart, with letters of 5 points.
    fn words(lines: &[&str]) -> Vec<PageWord> {
        let mut words = Vec::new();
        for (line, text) in (0..).zip(lines) {
            let mut x = 50;
            for text in text.split(' ') {
                let wide = 5 * text.chars().count() as i32;
                let top = 100 + 12 * line;
                let area = PageBox([x, top, x + wide, top + 10]);
                words.push(PageWord { text: text.into(), area, line: line as u32, ..PageWord::default() });
                x += wide + 4;
            }
        }
        words
    }

    /// Each word of the text with the box it got.
    fn placed(text: &str, known: &[PageWord]) -> Vec<(String, Option<PageBox>)> {
        let spans = place(text, known);
        let each = |span: &LayerSpan| match span {
            LayerSpan::Line { words, .. } => {
                words.iter().map(|(text, area)| (text.clone(), Some(*area))).collect()
            }
            LayerSpan::Text { text, area } => vec![(text.clone(), *area)],
        };
        spans.iter().flat_map(|span| -> Vec<_> { each(span) }).collect()
    }

    fn text_of(placed: &[(String, Option<PageBox>)]) -> String {
        let words: Vec<&str> = placed.iter().flat_map(|(text, _)| text.split_whitespace()).collect();
        words.join(" ")
    }

    #[test]
    fn equal_words_have_the_boxes_of_ocr_and_every_word_is_there_once_in_order() {
        let known = words(&["The quay was built in 1894", "and cost 12,500 pounds."]);
        for text in [
            "The quay was built in 1894 and cost 12,500 pounds.",
            "THE quay, was built in (1894) and cost 12.500 pounds",
        ] {
            let placed = placed(text, &known);
            assert_eq!(text_of(&placed), text);
            let boxes: Vec<_> = placed.iter().filter_map(|(_, area)| *area).collect();
            assert_eq!(boxes, known.iter().map(|word| word.area).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn a_word_read_differently_is_where_ocr_read_it() {
        let known = words(&["The qnay was bullt", "in 1894 and"]);
        let found = placed("The quay was built in 1894 and", &known);
        assert_eq!(found[1].1, Some(known[1].area));
        assert_eq!(found[3].1, Some(known[3].area));
        // Two words that OCR read as one, and one that it read as two.
        let found = placed("The q nay was bullt in 18 94 and", &known);
        let left = known[1].area.left();
        assert_eq!((found[1].1.unwrap().left(), found[1].1.unwrap().right()), (left, left + 5));
        let known = words(&["the har bour wall", "ends here"]);
        let found = placed("the harbour wall ends here", &known);
        assert_eq!(found[1].1, Some(union(known[1].area, known[2].area)));
        // A word that was broken at the end of a line is where most of it is.
        let known = words(&["along the har-", "bourside of it"]);
        let found = placed("along the harbourside of it", &known);
        assert_eq!(found[2].1.map(PageBox::top), Some(known[3].area.top()));
        assert_eq!(text_of(&found), "along the harbourside of it");
    }

    #[test]
    fn a_passage_that_stands_elsewhere_is_found_there() {
        let known = words(&["left column has this text", "right column has other words", "a footnote"]);
        let text = "right column has other words left column has this text a footnote";
        let found = placed(text, &known);
        assert_eq!(text_of(&found), text);
        let of = |word: &str| found.iter().find(|(text, _)| text.trim() == word).unwrap().1.unwrap().top();
        assert_eq!((of("left"), of("right"), of("footnote")), (100, 112, 124));
    }

    #[test]
    fn what_ocr_has_not_is_between_its_neighbours() {
        let mut known = words(&["Depth of the basin", "Figure one shows it"]);
        // A chart between the lines.
        for word in known.iter_mut().filter(|word| word.line == 1) {
            word.area = PageBox([word.area.left(), 312, word.area.right(), 322]);
        }
        let text = "Depth of the basin A bar chart with four bars of rising height Figure one shows it";
        let found = placed(text, &known);
        assert_eq!(text_of(&found), text);
        let chart = found.iter().find(|(text, _)| text.starts_with("A bar")).unwrap().1.unwrap();
        assert_eq!((chart.top(), chart.bottom()), (110, 312));
        // On one line.
        let found = placed("Depth below zero and more of the basin", &known[..4]);
        let below = found.iter().find(|(text, _)| text.starts_with("below")).unwrap().1.unwrap();
        assert_eq!((below.left(), below.right(), below.top()), (75, 79, 100));
        assert_eq!(placed("only the text", &[]), [("only the text".to_owned(), None)]);
        assert_eq!(place("", &known), []);
    }

    #[test]
    fn scripts_without_spaces_are_placed_by_their_characters_and_stay_without_spaces() {
        let area = PageBox([100, 10, 160, 30]);
        let known = [PageWord { text: "港口報告".into(), area, ..PageWord::default() }];
        let found = placed("港口报告", &known);
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["港", "口", "报", "告 "]);
        assert_eq!(found[2].1, Some(PageBox([130, 10, 145, 30])));
    }

    #[test]
    fn letters_of_a_turned_word_follow_its_direction() {
        let area = PageBox([0, 0, 100, 40]);
        for (turns, expected) in
            [(0, [0, 0, 25, 40]), (1, [0, 30, 100, 40]), (2, [75, 0, 100, 40]), (3, [0, 0, 100, 10])]
        {
            assert_eq!(section(area, turns, (0, 1), 4), PageBox(expected), "{turns}");
        }
    }

    #[test]
    fn a_page_of_any_length_keeps_all_of_its_text() {
        let text = (0..MAX_TOKENS + 500).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        assert_eq!(text_of(&placed(&text, &words(&["w1 w2 w3"]))), text);
    }
}
