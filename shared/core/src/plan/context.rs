//! The words around a page that are sent along with it.

/// Marks in the text sent to a model, so that it reads only the current page.
pub const BEFORE: &str = "--- before ---";
pub const CURRENT: &str = "--- current ---";
pub const AFTER: &str = "--- after ---";

/// Text of the page and its neighbours, marked, in at most `max_bytes` of text (marks not
/// counted). The current page has the first claim on the room; what is left is shared between
/// the pages before (their ends matter) and after (their beginnings do).
pub fn build(page: u32, of: u32, before: &str, current: &str, after: &str, max_bytes: usize) -> String {
    let current = head(current.trim(), max_bytes);
    let room = max_bytes - current.len();
    let before_share = room.saturating_sub(after.trim().len().min(room / 2));
    let before = tail(before.trim(), before_share);
    let after = head(after.trim(), room - before.len());
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

/// The longest beginning of `text` that fits, cut on a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest end of `text` that fits, cut on a character boundary.
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
    fn the_current_page_has_the_first_claim_on_the_room() {
        let text = build(1, 1, &"b".repeat(50), &"c".repeat(50), &"a".repeat(50), 60);
        assert!(text.contains(&"c".repeat(50)) && text.contains("bbbbb\n") && text.contains("aaaaa\n"));
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_no_character_is_cut(before in ".{0,200}", current in ".{0,200}", after in ".{0,200}", max in 0usize..400) {
            let text = build(1, 1, &before, &current, &after, max);
            let marks = "Page 1 of 1\n".len() + BEFORE.len() + CURRENT.len() + AFTER.len() + 6;
            prop_assert!(text.len() <= max + marks);
        }
    }
}
