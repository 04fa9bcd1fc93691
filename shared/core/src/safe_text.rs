//! Text of documents, models and callers at a terminal or in a log: nothing that gives the terminal orders.

use std::{
    borrow::Cow,
    io::{self, Write},
};

/// The text without control characters, except for line ends, tabs and the colours of this program; and without
/// characters that change the order of what is read.
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_control(c) || is_bidi(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = colour(rest).unwrap_or(c.len_utf8());
        let (part, after) = rest.split_at(length);
        match c {
            _ if length > 1 && c == ESCAPE => safe.push_str(part),
            c if is_control(c) => safe.push(char::REPLACEMENT_CHARACTER),
            c if is_bidi(c) => {}
            c => safe.push(c),
        }
        rest = after;
    }
    Cow::Owned(safe)
}

/// The text on one line and without colours, for a line that the program draws again and again.
pub fn safe_line(text: &str) -> String {
    let shown = text.chars().filter(|c| !is_bidi(*c)).map(|c| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    shown.collect()
}

/// The text without control characters, except for line ends and tabs, and without characters that change the order
/// of what is read; for logs that others display.
pub fn safe_plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_control(c) || is_bidi(c)) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().filter(|c| !is_bidi(*c));
    Cow::Owned(shown.map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
}

/// Writes lines to `W` as [`safe`] has them. JSON escapes control characters of 7 bits only.
pub struct Safe<W>(pub W);

impl<W: Write> Write for Safe<W> {
    /// Expects whole lines, as a log writes them.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(safe(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

const ESCAPE: char = '\u{1b}';

/// The length of the sequence for a colour at the start of the text, such as `ESC [ 1 ; 31 m`.
fn colour(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("\u{1b}[")?;
    let end = inner.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    inner[end..].starts_with('m').then_some(text.len() - inner.len() + end + 1)
}

fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// Characters that turn the direction of text, or break lines unseen.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_has_no_orders_and_no_turned_text() {
        let mut log = Safe(Vec::new());
        log.write_all("{\"name\":\"a\u{9b}2J\u{202e}fdp.exe\u{85}\"}\n".as_bytes()).unwrap();
        log.flush().unwrap();
        assert_eq!(String::from_utf8(log.0).unwrap(), "{\"name\":\"a\u{fffd}2Jfdp.exe\u{fffd}\"}\n");
    }

    #[test]
    fn orders_to_the_terminal_are_replaced_and_text_stays() {
        for (text, expected) in [
            ("Jahresbericht für Ålesund.pdf", "Jahresbericht für Ålesund.pdf"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            // Clears the screen, sets the title, answers a question, in 7 and 8 bits.
            ("a\u{1b}[2Jb", "a\u{fffd}[2Jb"),
            ("a\u{1b}]0;title\u{7}b", "a\u{fffd}]0;title\u{fffd}b"),
            ("a\u{9b}6nb", "a\u{fffd}6nb"),
            ("a\rb\u{8}c", "a\u{fffd}b\u{fffd}c"),
            ("\u{1b}[31", "\u{fffd}[31"),
            // Shows another extension than the name has.
            ("report\u{202e}fdp.exe", "reportfdp.exe"),
            ("a\u{2066}b\u{2069}c", "abc"),
        ] {
            assert_eq!(safe(text), expected, "{text:?}");
            assert!(!safe_plain(text).chars().any(|c| is_control(c) || is_bidi(c)), "{text:?}");
        }
    }
}
