//! A part of a document's text that fits into an answer.

use everypage_core::{
    document::{TableStyle, markdown},
    finish::result::PageResult,
};
use rmcp::schemars::{self, JsonSchema};
use serde::Serialize;

/// Where a text continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// The number of the page.
    pub page: u32,
    /// Characters of that page that were returned already.
    pub offset: usize,
}

/// The text of a page, or a part of it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct PageText {
    /// The number of the page in the document.
    pub page: u32,
    /// Where the text came from: `ai`, or Everypage's own reading.
    pub source: String,
    /// How sure our own reading is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
    /// Why a model's text is missing, or why there is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason: Option<String>,
    /// The text as Markdown.
    pub text: String,
}

/// The text of a page as Markdown: what a model wrote is, our own reading is rendered from its blocks.
pub fn text(page: &PageResult) -> String {
    match markdown(&page.blocks, TableStyle::default()) {
        text if text.is_empty() => page.text.clone(),
        text => text,
    }
}

/// At most `max_chars` characters of the pages from a place on, and where the rest starts.
pub fn excerpt(pages: &[PageResult], from: Place, max_chars: usize) -> (Vec<PageText>, Option<Place>) {
    let (mut taken, mut left) = (Vec::new(), max_chars.max(1));
    for page in pages.iter().filter(|page| page.page.get() >= from.page) {
        let number = page.page.get();
        let offset = if number == from.page { from.offset } else { 0 };
        if left == 0 {
            return (taken, Some(Place { page: number, offset }));
        }
        let whole = text(page);
        let part: String = whole.chars().skip(offset).take(left).collect();
        let end = offset + part.chars().count();
        let is_cut = whole.chars().nth(end).is_some();
        left = left.saturating_sub(end - offset);
        taken.push(PageText {
            page: number,
            source: page.source.to_string(),
            confidence: page.confidence.map(|confidence| confidence.get()),
            fallback_reason: page.fallback_reason.clone(),
            text: part,
        });
        if is_cut {
            return (taken, Some(Place { page: number, offset: end }));
        }
    }
    (taken, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pages(texts: &[&str]) -> Vec<PageResult> {
        let page = |(index, text): (usize, &&str)| {
            let page = json!({
                "page": index + 1, "source": "mupdf", "classification": "TEXT_ONLY", "reason": "text",
                "calls": [], "latency_ms": 0, "input_tokens": 0, "output_tokens": 0, "cost_micro_usd": 0,
                "has_text": true, "text": text,
            });
            serde_json::from_value(page).unwrap()
        };
        texts.iter().enumerate().map(page).collect()
    }

    #[test]
    fn excerpts_one_after_the_other_are_the_whole_text() {
        let pages = pages(&["été à Paris", "", "two", "x".repeat(50).as_str()]);
        let whole: String = pages.iter().map(text).collect();
        for max_chars in [0, 1, 2, 3, 7, 11, 12, 1000] {
            let (mut place, mut seen, mut rounds) = (Some(Place { page: 1, offset: 0 }), String::new(), 0);
            while let Some(from) = place {
                let (part, next) = excerpt(&pages, from, max_chars);
                let chars: usize = part.iter().map(|page| page.text.chars().count()).sum();
                assert!(chars <= max_chars.max(1), "{max_chars}");
                seen.extend(part.iter().map(|page| page.text.as_str()));
                place = next;
                rounds += 1;
                assert!(rounds < 200, "{max_chars}: no progress");
            }
            assert_eq!(seen, whole, "{max_chars}");
        }
    }

    #[test]
    fn a_place_after_the_end_is_empty() {
        let pages = pages(&["a", "b"]);
        assert_eq!(excerpt(&pages, Place { page: 3, offset: 0 }, 10), (vec![], None));
        let (part, next) = excerpt(&pages, Place { page: 2, offset: 9 }, 10);
        assert_eq!((part[0].text.as_str(), next), ("", None));
    }
}
