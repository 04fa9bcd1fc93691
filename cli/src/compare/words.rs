//! Words and numbers of a text, without its markup.

use unicode_normalization::UnicodeNormalization;

/// The words of a text in lower case, in order. Numbers keep their separators: 1,234.56 is one word.
pub fn words(text: &str) -> Vec<String> {
    let text: String = without_markup(text).nfkc().filter(|c| *c != '\u{ad}').collect();
    let text = joined(&text);
    let characters: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (index, &c) in characters.iter().enumerate() {
        let digit =
            |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(char::is_ascii_digit);
        let is_separator = matches!(c, '.' | ',') && digit(index.checked_sub(1)) && digit(Some(index + 1));
        if c.is_alphanumeric() || is_separator {
            word.extend(c.to_lowercase());
        } else if !word.is_empty() && !matches!(c, '\'' | '’') {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

pub fn is_number(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_digit())
}

/// Joins words that are broken at the end of a line.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("-\n") {
        let after = rest[at + 2..].trim_start();
        let is_broken = rest[..at].ends_with(char::is_alphabetic) && after.starts_with(char::is_lowercase);
        out.push_str(&rest[..at]);
        if !is_broken {
            out.push_str("-\n");
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Leaves out comments, tags and the targets of links.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', ']']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let skipped = if after.starts_with("<!--") {
            after.find("-->").map(|end| end + 3)
        } else if let Some(tag) = after.strip_prefix('<') {
            let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
            after.find('>').filter(|end| is_tag && *end < 300).map(|end| end + 1)
        } else {
            after
                .strip_prefix("](")
                .and_then(|target| target.find(')'))
                .filter(|end| *end < 1000)
                .map(|end| end + 3)
        };
        out.push(' ');
        // A sign that begins no markup is left out alone.
        rest = &after[skipped.unwrap_or(1)..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_hyphens_and_ligatures_make_no_difference() {
        for (text, expected) in [
            ("# Harbour **report**", "harbour report"),
            ("| a | 1,234.56 |\n| --- | --- |", "a 1,234.56"),
            ("the har-\n  bour of the well-\nKnown", "the harbour of the well known"),
            ("eﬃcient", "efficient"),
            ("<!-- page 1: ai --><a id=\"page-1\"></a>Text <b>bold</b>", "text bold"),
            ("see [the map](https://example.com/x1) ![](a9.png)", "see the map"),
            ("1 < 2 and a]b", "1 2 and a b"),
            ("Don’t don't", "dont dont"),
            ("Version 2. Next", "version 2 next"),
            ("", ""),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }
}
