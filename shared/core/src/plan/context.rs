//! The text of a page and its neighbours, which is sent with it.

/// Marks in the text that is sent to a model, so that it transcribes only the current page.
pub const BEFORE: &str = "--- before ---";
pub const CURRENT: &str = "--- current ---";
pub const AFTER: &str = "--- after ---";

/// The text of the page and its neighbours with marks, cut to `max_bytes` (without the marks).
///
/// The current page has priority. The remaining bytes are shared between the end of the pages before and the
/// start of the pages after.
pub fn build(page: u32, of: u32, before: &str, current: &str, after: &str, max_bytes: usize) -> String {
    let current = head(current.trim(), max_bytes);
    let remaining = max_bytes - current.len();
    let before_share = remaining.saturating_sub(after.trim().len().min(remaining / 2));
    let before = tail(before.trim(), before_share);
    let after = head(after.trim(), remaining - before.len());
    let mut text = format!("Page {page} of {of}\n");
    for (mark, part) in [(BEFORE, before), (CURRENT, current), (AFTER, after)] {
        if !part.is_empty() || mark == CURRENT {
            text.push_str(mark);
            text.push('\n');
            text.push_str(part);
            text.push('\n');
        }
    }
    text
}

/// The marks without the text of the page and its neighbours, as they are sent with a page that has no text: its
/// image has all of it.
pub fn without_text(text: &str) -> String {
    let marks = [BEFORE, CURRENT].map(|mark| text.find(&format!("\n{mark}\n")));
    match marks.into_iter().flatten().min() {
        Some(first) => format!("{}\n{CURRENT}\n\n", &text[..first]),
        None => text.to_owned(),
    }
}

/// The start of `text`, at most `max_bytes` long, cut at a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The end of `text`, at most `max_bytes` long, cut at a character boundary.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_parts_are_marked_in_order() {
        let text = build(2, 9, "one", "two", "three", 3000);
        assert_eq!(text, "Page 2 of 9\n--- before ---\none\n--- current ---\ntwo\n--- after ---\nthree\n");
    }

    #[test]
    fn the_text_can_be_left_out() {
        let scan = build(2, 9, "", "", "", 3000);
        for (before, current, after) in
            [("one", "two", "three"), ("", "two", ""), ("one", "", "three"), ("", "", "")]
        {
            assert_eq!(without_text(&build(2, 9, before, current, after, 3000)), scan);
        }
        assert_eq!(scan, "Page 2 of 9\n--- current ---\n\n");
        assert_eq!(without_text("instructions of another kind"), "instructions of another kind");
    }

    #[test]
    fn the_current_page_has_priority() {
        let text = build(1, 1, &"b".repeat(50), &"c".repeat(50), &"a".repeat(50), 60);
        assert!(text.contains(&"c".repeat(50)) && text.contains("bbbbb\n") && text.contains("aaaaa\n"));
    }

    proptest! {
        #[test]
        fn the_limit_is_kept_and_no_character_is_cut(before in ".{0,200}", current in ".{0,200}", after in ".{0,200}", max in 0usize..400) {
            let text = build(1, 1, &before, &current, &after, max);
            let marks = "Page 1 of 1\n".len() + BEFORE.len() + CURRENT.len() + AFTER.len() + 6;
            prop_assert!(text.len() <= max + marks);
        }
    }
}
