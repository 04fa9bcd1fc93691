//! Finds words in the text of pages.

use everypage_core::finish::result::PageResult;
use rmcp::schemars::{self, JsonSchema};
use serde::Serialize;

use super::excerpt::text;

/// Characters of text on each side of a hit.
const AROUND: usize = 120;

/// A page that has the words.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// The id of the job.
    pub job: String,
    /// The name of the document.
    pub document: String,
    /// The number of the page.
    pub page: u32,
    /// How often the page has them.
    pub count: usize,
    /// The text around the first place.
    pub excerpt: String,
}

/// How often a text has the query, in any case and with any white space, and what is around the first place.
pub fn find(text: &str, query: &str) -> Option<(usize, String)> {
    let text: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower = |text: &[char]| -> Vec<char> {
        // One character each, so that places in both texts are the same.
        text.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect()
    };
    let query: Vec<char> = query.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let (query, lowered) = (lower(&query), lower(&text));
    if query.is_empty() {
        return None;
    }
    let mut places = (0..lowered.len()).filter(|at| lowered[*at..].starts_with(&query));
    let first = places.next()?;
    let (start, end) = (first.saturating_sub(AROUND), (first + query.len() + AROUND).min(text.len()));
    let around: String = text[start..end].iter().collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    Some((1 + places.count(), format!("{before}{around}{after}")))
}

/// Whether and where a page has the query.
pub fn search(job: &str, document: &str, page: &PageResult, query: &str) -> Option<Hit> {
    let (count, excerpt) = find(&text(page), query)?;
    Some(Hit { job: job.to_owned(), document: document.to_owned(), page: page.page.get(), count, excerpt })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_across_lines() {
        let text = format!("{} The Harbour\n  Dues rose. HARBOUR dues fell.", "é ".repeat(100));
        let (count, around) = find(&text, "harbour  dues").unwrap();
        assert_eq!(count, 2);
        assert!(around.starts_with('…') && around.contains("The Harbour Dues rose."), "{around}");
        assert!(around.chars().count() <= 2 * AROUND + "harbour dues".len() + 2);
        assert_eq!(find("ÉTÉ", "été"), Some((1, "ÉTÉ".to_owned())));
        assert_eq!(find("abc", "x"), None);
        assert_eq!(find("abc", "  "), None);
        assert_eq!(find("", "x"), None);
    }
}
