//! The pages of another tool's text: by its page marks, else by alignment with the document.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use everypage_core::finish::result::ResultDocument;
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::words::words;

/// Words that are compared together when pages are aligned: three in a row are hardly ever twice in a document.
const SHINGLE: usize = 3;
/// Alignment ends after this; the rest is matched coarsely.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The words of a text, by page.
#[derive(Debug, PartialEq, Eq)]
pub enum Text {
    Pages(BTreeMap<u32, Vec<String>>),
    /// No page marks.
    Whole(Vec<String>),
}

/// Finds the page marks of our JSON, text and Markdown, and form feeds, as pdftotext writes them.
pub fn parse(text: &str) -> Text {
    if let Ok(document) = serde_json::from_str::<ResultDocument>(text) {
        let pages = document.pages.iter().filter(|page| page.has_text);
        return Text::Pages(pages.map(|page| (page.page.get(), words(&page.text))).collect());
    }
    let marks: Vec<Option<u32>> = text.lines().map(page_mark).collect();
    if marks.iter().any(Option::is_some) {
        let mut pages: BTreeMap<u32, String> = BTreeMap::new();
        let mut current = None;
        for (line, mark) in text.lines().zip(marks) {
            match (mark, current) {
                (Some(page), _) => {
                    current = Some(page);
                    pages.entry(page).or_default();
                }
                (None, Some(page)) => {
                    let lines = pages.entry(page).or_default();
                    lines.push_str(line);
                    lines.push('\n');
                }
                (None, None) => {}
            }
        }
        return Text::Pages(pages.into_iter().map(|(page, text)| (page, words(&text))).collect());
    }
    match text.trim_end_matches(['\n', '\u{c}']).contains('\u{c}') {
        true => Text::Pages((1..).zip(text.trim_end_matches('\u{c}').split('\u{c}').map(words)).collect()),
        false => Text::Whole(words(text)),
    }
}

/// The page that a line announces: `=== Page 3 ===`, `<a id="page-3"></a>`.
fn page_mark(line: &str) -> Option<u32> {
    let line = line.trim();
    let number = line
        .strip_prefix("=== Page ")
        .and_then(|rest| rest.strip_suffix(" ==="))
        .or_else(|| line.strip_prefix("<a id=\"page-").and_then(|rest| rest.split('"').next()))?;
    number.parse().ok()
}

/// Gives each word of a text without page marks to the page that it comes from: the one of the words around it
/// that are in the document.
pub fn align(document: &BTreeMap<u32, Vec<String>>, text: Vec<String>) -> BTreeMap<u32, Vec<String>> {
    let (mut known, mut page_of) = (Vec::new(), Vec::new());
    for (page, words) in document {
        known.extend(words.iter().cloned());
        page_of.extend(words.iter().map(|_| *page));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a computation at the command line, decides nothing"
    )]
    let deadline = Instant::now() + MAX_TIME;
    let (a, b) = (shingles(&known), shingles(&text));
    let matched = capture_diff_slices_deadline(Algorithm::Patience, &a, &b, Some(deadline));
    let mut pages: Vec<Option<u32>> = vec![None; text.len()];
    for change in matched {
        let (tag, old, new) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            for (known, word) in old.zip(new) {
                // The last shingle of a run stands for all of its words.
                for next in 0..SHINGLE {
                    if let (Some(place), Some(page)) = (pages.get_mut(word + next), page_of.get(known + next))
                    {
                        *place = Some(*page);
                    }
                }
            }
        }
    }
    let first = document.keys().next().copied().unwrap_or(1);
    let mut current = pages.iter().flatten().next().copied().unwrap_or(first);
    let mut out: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (word, page) in text.into_iter().zip(pages) {
        current = page.unwrap_or(current);
        out.entry(current).or_default().push(word);
    }
    out
}

fn shingles(words: &[String]) -> Vec<u64> {
    let hash = |shingle: &[String]| {
        let mut hasher = DefaultHasher::new();
        shingle.hash(&mut hasher);
        hasher.finish()
    };
    words.windows(SHINGLE).map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32) -> String {
        (0..60).map(|word| format!("word{} of{} ", number * 100 + word, number)).collect()
    }

    #[test]
    fn page_marks_of_each_kind_are_found() {
        let expected: BTreeMap<u32, Vec<String>> =
            [(1, vec!["one".to_owned()]), (2, vec![]), (3, vec!["three".to_owned()])].into();
        for text in [
            "=== Page 1 ===\none\n\n=== Page 2 ===\n\n=== Page 3 ===\nthree\n",
            "<a id=\"page-1\"></a>\n<!-- page 1: ai -->\n\none\n\n---\n\n<a id=\"page-2\"></a>\n<a id=\"page-3\"></a>\nthree",
            "one\n\u{c}\u{c}three\n\u{c}",
        ] {
            assert_eq!(parse(text), Text::Pages(expected.clone()), "{text}");
        }
        assert_eq!(parse("one\ntwo"), Text::Whole(vec!["one".into(), "two".into()]));
    }

    #[test]
    fn text_without_marks_is_divided_where_the_pages_change() {
        let document: BTreeMap<u32, Vec<String>> =
            (1..=4).map(|number| (number, words(&page(number)))).collect();
        // Page 3 is missing, and page 2 has something new in the middle.
        let second = page(2);
        let (head, tail) = second.split_at(second.len() / 2);
        let text = format!("# Title {} {head} something entirely new {tail} {}", page(1), page(4));
        let aligned = align(&document, words(&text));
        assert_eq!(aligned.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(aligned[&4], document[&4]);
        assert_eq!(aligned[&2].len(), document[&2].len() + 3 + usize::from(!head.ends_with(' ')));
    }
}
