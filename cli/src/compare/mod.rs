//! Compares the text of a document with another text: what is missing, invented or out of order, page by page.

mod pages;
mod words;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use similar::{Algorithm, DiffTag, capture_diff_slices};

pub use self::{
    pages::{Text, align, parse},
    words::{is_number, words},
};

/// Words of each kind that are named.
const MAX_EXAMPLES: usize = 8;
/// What OCR misreads on a page that it is sure of: it lowers the agreement that is asked for, and numbers may differ.
const OCR_TOLERANCE: f64 = 0.15;

/// The content of a page of the document.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The words of its text, in order.
    pub words: Vec<String>,
    /// Words that a text may have or not: running headers, footers, page numbers.
    pub optional: Vec<String>,
    /// Why its text can't be the measure, such as a scan.
    pub unknown: Option<&'static str>,
    /// Whether its text is what OCR reads.
    pub is_recognized: bool,
}

/// How a page compares.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageComparison {
    pub page: u32,
    /// Words of the document's page, and of the text.
    pub words: usize,
    pub words_in_text: usize,
    pub missing: usize,
    pub invented: usize,
    /// Words that are there, but not where they belong.
    pub out_of_order: usize,
    pub missing_numbers: usize,
    pub invented_numbers: usize,
    /// The share of words that are the same and in order, 0 to 1.
    pub agreement: f64,
    /// Whether the document's page was read by OCR, which misreads some words.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_recognized: bool,
    /// Set if the page can't be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<&'static str>,
    /// Some of the words, numbers first.
    pub missing_words: Vec<String>,
    pub invented_words: Vec<String>,
}

impl PageComparison {
    /// Whether the page agrees: numbers exactly, words up to `minimum`; both less strictly where OCR is the measure.
    pub fn agrees(&self, minimum: f64) -> bool {
        match self.is_recognized {
            _ if self.not_checked.is_some() => true,
            true => self.agreement >= minimum - OCR_TOLERANCE,
            false => self.missing_numbers == 0 && self.invented_numbers == 0 && self.agreement >= minimum,
        }
    }

    /// Whether the page has words and the text has none of them.
    pub fn is_absent(&self) -> bool {
        self.not_checked.is_none() && self.words > 0 && self.words_in_text == 0
    }
}

/// Compares every page of the document.
pub fn compare(document: &BTreeMap<u32, Expected>, text: Text) -> Vec<PageComparison> {
    let is_aligned = matches!(text, Text::Whole(_));
    let mut found = match text {
        Text::Pages(pages) => pages,
        Text::Whole(text) => {
            let known = document.iter().map(|(page, expected)| (*page, expected.words.clone())).collect();
            align(&known, text)
        }
    };
    let mut compared: Vec<PageComparison> = document
        .iter()
        .map(|(page, expected)| {
            let mut expected = expected.clone();
            // Where pages are divided by their words, the header of one may be at the end of the one before.
            for next in [page.saturating_sub(1), page + 1].iter().filter(|_| is_aligned) {
                expected
                    .optional
                    .extend(document.get(next).iter().flat_map(|next| next.optional.iter().cloned()));
            }
            compare_page(*page, &expected, &found.remove(page).unwrap_or_default())
        })
        .collect();
    // Pages that the document does not have are invented as a whole.
    let none = Expected::default();
    compared.extend(
        found
            .iter()
            .filter(|(_, words)| !words.is_empty())
            .map(|(page, words)| compare_page(*page, &none, words)),
    );
    compared
}

fn compare_page(page: u32, expected: &Expected, text: &[String]) -> PageComparison {
    let (words, words_in_text) = (expected.words.len(), text.len());
    if let Some(reason) = expected.unknown {
        let not_checked = Some(reason);
        return PageComparison { page, words, words_in_text, not_checked, ..PageComparison::default() };
    }
    let missing = difference(&expected.words, text);
    let invented = difference(&difference(text, &expected.words), &expected.optional);
    // What does not line up although it is on both sides was moved.
    let unmatched: usize = capture_diff_slices(Algorithm::Myers, &expected.words, text)
        .iter()
        .filter(|change| change.tag() != DiffTag::Equal)
        .map(|change| change.old_range().len())
        .sum();
    let out_of_order = unmatched.saturating_sub(missing.len());
    let wrong = missing.len() + invented.len() + out_of_order;
    let all = words.max(words_in_text).max(1);
    PageComparison {
        page,
        words,
        words_in_text,
        missing: missing.len(),
        invented: invented.len(),
        out_of_order,
        missing_numbers: missing.iter().filter(|word| is_number(word)).count(),
        invented_numbers: invented.iter().filter(|word| is_number(word)).count(),
        agreement: 1.0 - (wrong as f64 / all as f64).min(1.0),
        is_recognized: expected.is_recognized,
        not_checked: None,
        missing_words: examples(missing),
        invented_words: examples(invented),
    }
}

/// The words of `from` that are not in `other`, as often as they are not.
fn difference(from: &[String], other: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in other {
        *counts.entry(word).or_default() += 1;
    }
    let is_new = |word: &&String| match counts.get_mut(word.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    from.iter().filter(is_new).cloned().collect()
}

fn examples(mut words: Vec<String>) -> Vec<String> {
    words.sort_by_key(|word| !is_number(word));
    words.dedup();
    words.truncate(MAX_EXAMPLES);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "The quay was built in 1894 and cost 12,500 pounds. Herons watch the boats in the evening.";

    fn compared(text: &str) -> PageComparison {
        let expected =
            Expected { words: words(PAGE), optional: words("Annual report 7"), ..Expected::default() };
        let document = BTreeMap::from([(1, expected)]);
        compare(&document, Text::Pages([(1, words(text))].into())).remove(0)
    }

    #[test]
    fn each_kind_of_difference_is_counted() {
        let same = compared(&format!("Annual report\n\n**{PAGE}**\n\n7"));
        assert_eq!((same.missing, same.invented, same.out_of_order), (0, 0, 0), "{same:?}");
        assert!(same.agrees(1.0));
        let missing = compared("The quay was built in 1894 and cost 12,500 pounds.");
        assert_eq!((missing.missing, missing.invented, missing.out_of_order), (7, 0, 0));
        let number = compared(&PAGE.replace("1894", "1849"));
        assert_eq!((number.missing_numbers, number.invented_numbers), (1, 1));
        assert_eq!((number.missing_words, number.invented_words), (vec!["1894".into()], vec!["1849".into()]));
        assert!(number.agreement > 0.85 && !compared(&PAGE.replace("1894", "1849")).agrees(0.5));
        let moved = compared(
            "Herons watch the boats in the evening. The quay was built in 1894 and cost 12,500 pounds.",
        );
        assert_eq!((moved.missing, moved.invented), (0, 0));
        assert_eq!(moved.out_of_order, 7);
        let absent = compared("");
        assert!(absent.is_absent() && absent.agreement == 0.0);
    }

    #[test]
    fn what_ocr_misreads_is_no_difference_and_another_text_is() {
        let of_ocr = |text: &str| {
            let expected = Expected { words: words(PAGE), is_recognized: true, ..Expected::default() };
            compare(&BTreeMap::from([(1, expected)]), Text::Pages([(1, words(text))].into())).remove(0)
        };
        let misread = of_ocr(&PAGE.replace("1894", "1B94"));
        assert_eq!((misread.missing_numbers, misread.agrees(0.98), misread.agrees(1.2)), (1, true, false));
        assert!(!of_ocr("The quay was built in 1894.").agrees(0.98));
        assert!(of_ocr("").is_absent());
    }

    #[test]
    fn pages_that_are_too_many_are_invented_and_scans_are_not_checked() {
        let scan = Expected { unknown: Some("scan"), ..Expected::default() };
        let document = BTreeMap::from([(1, scan)]);
        let pages = compare(&document, Text::Pages([(1, words("a b")), (2, words("c d 9"))].into()));
        assert!(pages[0].agrees(1.0) && pages[0].not_checked.is_some());
        assert_eq!((pages[1].page, pages[1].invented, pages[1].agrees(0.0)), (2, 3, false));
    }
}
