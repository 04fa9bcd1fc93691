//! Markers of list items.

use super::letters::is_bullet;

/// The length in bytes of the marker that starts the text, without the space after it. Bullets are always markers;
/// numbers and letters need a dot or brackets.
pub(super) fn marker(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if is_bullet(first) {
        let length = first.len_utf8();
        return text[length..].starts_with(' ').then_some(length);
    }
    let end = text.find(' ')?;
    // Word's second bullet is a letter.
    if &text[..end] == "o" && text[end..].trim_start().starts_with(char::is_uppercase) {
        return Some(end);
    }
    is_numbering(&text[..end]).then_some(end)
}

/// Whether the text is a bullet and nothing else.
pub(super) fn is_bullet_marker(text: &str) -> bool {
    let mut characters = text.chars();
    matches!((characters.next(), characters.next()), (Some(c), None) if is_bullet(c) || c == 'o')
}

/// Whether the text is a marker and nothing else.
pub(super) fn is_marker(text: &str) -> bool {
    is_bullet_marker(text) || is_numbering(text)
}

pub(super) fn is_bulleted(text: &str) -> bool {
    text.starts_with(is_bullet)
}

/// `1.`, `12)`, `(a)`, `iv.`, `b)`, `[3]`.
fn is_numbering(token: &str) -> bool {
    let (inner, is_bracketed) = match token.strip_prefix(['(', '[']) {
        Some(rest) => match rest.strip_suffix([')', ']']) {
            Some(inner) => (inner, true),
            None => return false,
        },
        None => match token.strip_suffix(['.', ')']) {
            Some(inner) => (inner, false),
            None => return false,
        },
    };
    let is_number = !inner.is_empty() && inner.len() <= 3 && inner.bytes().all(|b| b.is_ascii_digit());
    let is_letter = inner.len() == 1 && inner.bytes().all(|b| b.is_ascii_alphabetic());
    let is_roman = (1..=5).contains(&inner.len()) && inner.bytes().all(|b| b"ivx".contains(&b));
    is_number
        || is_roman
        || (is_letter
            && (is_bracketed || token.ends_with(')') || inner.bytes().all(|b| b.is_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bullets_and_numbers_are_markers_and_words_are_not() {
        for text in ["• one", "- one", "1. one", "12) one", "(a) one", "iv. one", "b) one", "[3] one"] {
            assert!(marker(text).is_some(), "{text}");
        }
        for text in [
            "one two",
            "1 Introduction",
            "1.2 Scope",
            "-5 degrees",
            "A. Smith",
            "2019. The",
            "e.g. this",
            "(see) it",
        ] {
            assert!(marker(text).is_none(), "{text}");
        }
        assert!(is_marker("•") && is_marker("3.") && !is_marker("three"));
    }
}
