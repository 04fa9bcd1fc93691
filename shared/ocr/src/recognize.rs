//! Reads a page whichever way it is turned.
//!
//! Upright is tried first and is the answer if its words are good, so that upright pages cost one pass. Tesseract
//! built for neural networks alone has no detection of orientation; the turns are tried on a picture of half the
//! size instead, and the one with the most good letters wins. Lines that run up or down Tesseract finds by itself in
//! most cases, so that the first turn to try is upside down; which way they run is seen from where their words are.

use std::time::{Duration, Instant};

use crate::{
    lines,
    picture::{Picture, turned_back},
    tesseract::Tesseract,
    wire::{Page, Word},
};

/// A word that Tesseract is surer of is probably one. Words that are read upside down rarely reach it.
const GOOD_CONFIDENCE: f32 = 0.75;
/// If this share of the letters is in good words, the page is upright.
const GOOD_SHARE: f32 = 0.6;
/// Fewer letters say nothing about the turn.
const MIN_GOOD_LETTERS: usize = 20;
/// Another turn must be better than upright by this factor.
const MIN_GAIN: f32 = 1.3;

/// The time for a page, as it passes.
struct TimeLimit {
    start: Instant,
    time: Duration,
}

impl TimeLimit {
    #[expect(clippy::disallowed_methods, reason = "the program has no other clock")]
    fn new(time: Duration) -> Self {
        Self { start: Instant::now(), time }
    }

    fn left(&self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }
}

pub fn page(tesseract: &mut Tesseract, picture: &Picture, dpi: u32, time: Duration) -> Page {
    let time = TimeLimit::new(time);
    let upright = tesseract.words(picture, dpi, time.left());
    let found = match best_turn(tesseract, picture, dpi, &upright, &time) {
        0 => (0, upright),
        turns => {
            let words = tesseract.words(&picture.turned(turns), dpi, time.left());
            // Cut off by the time: what was read upright may be more.
            if good_letters(&words) > good_letters(&upright) { (turns, words) } else { (0, upright) }
        }
    };
    let (turns, mut words) = found;
    set_line_turns(&mut words);
    let (width, height) = (picture.width as u32, picture.height as u32);
    for word in &mut words {
        word.area = turned_back(word.area, turns, width, height);
        word.turns = (word.turns + turns) % 4;
    }
    Page { width, height, words, lines: lines::find(picture, dpi) }
}

fn best_turn(
    tesseract: &mut Tesseract,
    picture: &Picture,
    dpi: u32,
    upright: &[Word],
    time: &TimeLimit,
) -> u8 {
    if is_upright(upright) {
        return 0;
    }
    let small = picture.half();
    let mut best = (0, (MIN_GAIN * good_letters(upright) as f32).max(MIN_GOOD_LETTERS as f32));
    for turns in [2, 1, 3] {
        let left = time.left();
        if left.is_zero() {
            break;
        }
        let words = tesseract.words(&small.turned(turns), (dpi / 2).max(70), left / 3);
        let good = good_letters(&words) as f32;
        if good > best.1 {
            best = (turns, good);
            if is_upright(&words) {
                break;
            }
        }
    }
    best.0
}

/// Finds for each line which way it runs, from the places of its first and its last word. Lines of one word run as
/// most others do.
fn set_line_turns(words: &mut [Word]) {
    let mut counts = [0; 4];
    for line in words.chunk_by_mut(|a, b| a.line == b.line) {
        if let Some(turns) = line_turns(line) {
            counts[usize::from(turns)] += line.len();
            line.iter_mut().for_each(|word| word.turns = turns);
        }
    }
    let most = (0..4_u8).rev().max_by_key(|turns| counts[usize::from(*turns)]).unwrap_or(0);
    for line in words.chunk_by_mut(|a, b| a.line == b.line) {
        if line_turns(line).is_none() {
            line.iter_mut().for_each(|word| word.turns = most);
        }
    }
}

fn line_turns(line: &[Word]) -> Option<u8> {
    let [first, .., last] = line else { return None };
    let across = middle(last.area.x0, last.area.x1) - middle(first.area.x0, first.area.x1);
    let down = middle(last.area.y0, last.area.y1) - middle(first.area.y0, first.area.y1);
    // Words come in reading order, which is from right to left in some scripts.
    let across = if is_right_to_left(line) { -across } else { across };
    Some(match (across.abs() >= down.abs(), across >= 0.0, down >= 0.0) {
        (true, true, _) => 0,
        (true, false, _) => 2,
        (false, _, true) => 3,
        (false, _, false) => 1,
    })
}

/// Hebrew, Arabic and their relatives.
fn is_right_to_left(line: &[Word]) -> bool {
    let count = |wanted: fn(char) -> bool| -> usize {
        line.iter().map(|word| word.text.chars().filter(|c| wanted(*c)).count()).sum()
    };
    2 * count(|c| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}')) > count(char::is_alphabetic)
}

fn middle(from: u32, to: u32) -> f32 {
    (from as f32 + to as f32) / 2.0
}

/// Whether most of the letters are in good words.
fn is_upright(words: &[Word]) -> bool {
    let (good, all) = (good_letters(words), words.iter().map(letters).sum::<usize>());
    good >= MIN_GOOD_LETTERS && good as f32 >= GOOD_SHARE * all as f32
}

/// Letters and digits in words that are probably right.
fn good_letters(words: &[Word]) -> usize {
    words.iter().filter(|word| word.confidence >= GOOD_CONFIDENCE && letters(word) >= 2).map(letters).sum()
}

fn letters(word: &Word) -> usize {
    word.text.chars().filter(|c| c.is_alphanumeric()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Box;

    fn word(text: &str, line: u32, x: u32, y: u32) -> Word {
        let area = Box { x0: x, y0: y, x1: x + 20, y1: y + 10 };
        Word { text: text.into(), area, confidence: 0.9, points: 10, turns: 0, line, block: 1 }
    }

    #[test]
    fn the_turn_of_a_line_is_where_its_words_go() {
        for (next, turns) in [((90, 50), 0), ((50, 10), 1), ((10, 50), 2), ((50, 90), 3)] {
            let mut words =
                [word("one", 1, 50, 50), word("two", 1, next.0, next.1), word("alone", 2, 200, 200)];
            set_line_turns(&mut words);
            assert_eq!(words.map(|word| word.turns), [turns; 3]);
        }
        let mut hebrew = [word("שלום", 1, 90, 50), word("עולם", 1, 50, 50)];
        set_line_turns(&mut hebrew);
        assert_eq!(hebrew.map(|word| word.turns), [0; 2]);
    }

    #[test]
    fn few_or_doubtful_words_are_not_upright() {
        let sure = word("understanding", 1, 0, 0);
        let doubtful = Word { confidence: 0.3, ..sure.clone() };
        assert!(is_upright(&[sure.clone(), sure.clone()]));
        assert!(!is_upright(std::slice::from_ref(&sure)));
        assert!(!is_upright(&[sure.clone(), sure.clone(), doubtful.clone(), doubtful]));
    }
}
