//! Invariants of every result.

use super::result::ResultDocument;
use crate::{
    document::Reason,
    invariants::{Checked, check},
};

/// A result has every page exactly once, in order, under its true number, with text or with the reason for
/// having none.
pub fn whole(document: &ResultDocument) -> Checked {
    let numbers = document.pages.iter().map(|page| page.page.get());
    let total = document.metadata.total_pages;
    check(numbers.clone().is_sorted_by(|a, b| a < b) && document.pages.len() == total as usize, || {
        format!("a result of {total} pages has {:?}", numbers.collect::<Vec<_>>())
    })?;
    for page in &document.pages {
        let blank = page.reason == Reason::Blank;
        check(blank || !page.text.is_empty(), || format!("page {} has no text", page.page))?;
        let explained = !page.source.is_fallback() || page.fallback_reason.is_some();
        check(explained, || format!("page {} fell back without a reason", page.page))?;
    }
    Ok(())
}
