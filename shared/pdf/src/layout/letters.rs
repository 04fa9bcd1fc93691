//! Letters: symbols of private fonts, accents, superscripts, words broken at the end of a line.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The character to write for `c`; `None` for one that is not text.
pub(super) fn mapped(c: char) -> Option<char> {
    Some(match c {
        // Symbol and Wingdings, which Word puts into the private use area: bullets, marks and arrows.
        '\u{f0b7}' | '\u{f0a7}' | '\u{f06c}' | '\u{f076}' | '\u{f0a8}' | '\u{f0d8}' | '\u{f0fc}'
        | '\u{f0be}' | '\u{f06e}' | '\u{f071}' | '\u{f075}' | '\u{f0ae}' | '\u{f0d2}' => '•',
        '\u{f0e0}' | '\u{f0e8}' => '→',
        '\u{f02d}' => '-',
        '\u{f0fe}' | '\u{f052}' | '\u{f078}' | '\u{f0fd}' => '☒',
        '\u{f06f}' | '\u{f0a3}' => '☐',
        '\u{f020}'..='\u{f07e}' => char::from_u32(u32::from(c) - 0xf000)?,
        '\u{2011}' | '\u{2010}' => '-',
        '\u{a0}' | '\t' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        '\u{ad}' => '\u{ad}',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => {
            return None;
        }
        c if c.is_control() => return None,
        c => c,
    })
}

/// Whether the glyph is drawn over the letter before or after it, although it is a letter of its own.
pub(super) fn combining(c: char) -> Option<char> {
    Some(match c {
        '\u{b4}' | '\u{2ca}' => '\u{301}',
        '`' | '\u{2cb}' => '\u{300}',
        '\u{a8}' => '\u{308}',
        '\u{2c6}' | '^' => '\u{302}',
        '\u{2dc}' | '~' => '\u{303}',
        '\u{b8}' => '\u{327}',
        '\u{2d8}' => '\u{306}',
        '\u{2c7}' => '\u{30c}',
        '\u{2da}' => '\u{30a}',
        '\u{af}' | '\u{2c9}' => '\u{304}',
        '\u{2d9}' => '\u{307}',
        '\u{2dd}' => '\u{30b}',
        '\u{2db}' => '\u{328}',
        _ => return None,
    })
}

/// The letter with the accent, if there is such a letter.
pub(super) fn composed(letter: char, accent: char) -> Option<char> {
    let letter = match letter {
        'ı' => 'i',
        'ȷ' => 'j',
        letter => letter,
    };
    unicode_normalization::char::compose(letter, accent)
}

/// The text with its accents composed.
pub(super) fn normalized(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// The superscript form of a digit, sign or letter, if it has one: `10⁶` must not become `106`, nor `xⁿ` `xn`.
pub(super) fn superscript(c: char) -> char {
    match c {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4'..='9' => char::from_u32(u32::from('⁰') + u32::from(c) - u32::from('0')).unwrap_or(c),
        '+' => '⁺',
        '-' | '−' | '–' => '⁻',
        '=' => '⁼',
        '(' => '⁽',
        ')' => '⁾',
        'a' => 'ᵃ',
        'b' => 'ᵇ',
        'c' => 'ᶜ',
        'd' => 'ᵈ',
        'e' => 'ᵉ',
        'f' => 'ᶠ',
        'g' => 'ᵍ',
        'i' => 'ⁱ',
        'k' => 'ᵏ',
        'm' => 'ᵐ',
        'n' => 'ⁿ',
        'o' => 'ᵒ',
        'p' => 'ᵖ',
        'r' => 'ʳ',
        's' => 'ˢ',
        't' => 'ᵗ',
        'x' => 'ˣ',
        'y' => 'ʸ',
        c => c,
    }
}

pub(super) fn is_bullet(c: char) -> bool {
    matches!(
        c,
        '•' | '◦'
            | '▪'
            | '▫'
            | '■'
            | '□'
            | '●'
            | '○'
            | '◆'
            | '◇'
            | '►'
            | '▶'
            | '➢'
            | '➤'
            | '‣'
            | '⁃'
            | '∙'
            | '·'
            | '✓'
            | '✔'
            | '❖'
            | '–'
            | '—'
            | '-'
            | '*'
            | '☐'
            | '☒'
            | '☑'
            | '→'
            | '»'
            | '›'
    )
}

/// Whether the letter is written from right to left.
pub(super) fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}')
}

/// Whether the script is written without spaces between words, so that lines are joined without one.
pub(super) fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
}

/// Appends the next line of a paragraph: a word that is broken at the end of the line is joined.
pub(super) fn join_line(text: &mut String, next: &str) {
    let Some(last) = text.chars().next_back() else {
        text.push_str(next);
        return;
    };
    let Some(first) = next.chars().next() else { return };
    match last {
        '\u{ad}' => {
            text.pop();
        }
        '-' if breaks_word(text, next) => {
            text.pop();
        }
        // A compound that is broken at its hyphen keeps it: `out-of-` and `lab`.
        '-' if ends_in_word_and_hyphen(text) && first.is_alphanumeric() => {}
        '/' if !text.ends_with(" /") && first.is_alphanumeric() => {}
        last if is_spaceless(last) && is_spaceless(first) => {}
        last if last.is_whitespace() => {}
        _ => text.push(' '),
    }
    text.push_str(next);
}

fn ends_in_word_and_hyphen(text: &str) -> bool {
    text.chars().rev().nth(1).is_some_and(char::is_alphanumeric)
}

/// First parts that English and other compounds with a hyphen have.
const COMPOUND_STARTS: [&str; 34] = [
    "self", "non", "well", "high", "low", "long", "short", "half", "cross", "multi", "semi", "anti", "post",
    "pre", "ex", "quasi", "state", "real", "large", "small", "full", "open", "end", "one", "two", "three",
    "four", "five", "first", "second", "third", "so", "meta", "e",
];

/// Whether the hyphen at the end of `text` only breaks a word: `exam-` and `ple`, but not `1990-` and `1995`,
/// `Jean-` and `Paul`, `out-of-` and `lab`, `self-` and `contained`.
fn breaks_word(text: &str, next: &str) -> bool {
    let word = text.trim_end_matches('-').rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    let stem = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    stem.chars().next_back().is_some_and(char::is_alphabetic)
        && next.starts_with(char::is_lowercase)
        && !stem.contains('-')
        && !COMPOUND_STARTS.contains(&stem.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(first: &str, next: &str) -> String {
        let mut text = first.to_owned();
        join_line(&mut text, next);
        text
    }

    #[test]
    fn broken_words_are_joined_and_compounds_keep_their_hyphen() {
        assert_eq!(joined("an exam-", "ple"), "an example");
        assert_eq!(joined("soft\u{ad}", "ware"), "software");
        assert_eq!(joined("out-of-", "lab tests"), "out-of-lab tests");
        assert_eq!(joined("from 1990-", "1995"), "from 1990-1995");
        assert_eq!(joined("Jean-", "Paul"), "Jean-Paul");
        assert_eq!(joined("a self-", "contained"), "a self-contained");
        assert_eq!(joined("one line", "and the next"), "one line and the next");
        assert_eq!(joined("a list -", "next"), "a list - next");
        assert_eq!(joined("你好", "世界"), "你好世界");
    }

    #[test]
    fn accents_and_symbols_are_letters_that_readers_know() {
        assert_eq!(normalized("Neucha\u{302}tel"), "Neuchâtel");
        assert_eq!(mapped('\u{f0b7}'), Some('•'));
        assert_eq!(mapped('\u{200b}'), None);
        assert_eq!(composed('a', '\u{302}'), Some('â'));
        assert_eq!("-26".chars().map(superscript).collect::<String>(), "⁻²⁶");
    }
}
