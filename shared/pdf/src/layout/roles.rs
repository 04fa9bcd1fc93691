//! Roles that a page shows by itself: captions, list items, code, footnotes. Headings and running headers need the
//! whole document.

use everypage_core::document::BlockKind;

use super::{content::TagRole, paragraph::Draft};
use crate::page::Area;

const CAPTION_WORDS: [&str; 22] = [
    "figure",
    "fig.",
    "fig",
    "figs.",
    "table",
    "tab.",
    "tbl.",
    "chart",
    "exhibit",
    "scheme",
    "plate",
    "map",
    "graph",
    "abbildung",
    "abb.",
    "tabelle",
    "tableau",
    "figura",
    "tabla",
    "tabela",
    "algorithm",
    "listing",
];

/// The word and number that start a caption: `Figure 3:`, `Table A.1.`, `Fig. 2`.
pub(super) fn is_caption(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(word) = words.next() else { return false };
    let is_word =
        CAPTION_WORDS.contains(&word.to_lowercase().as_str()) && word.starts_with(char::is_uppercase);
    let Some(number) = words.next().filter(|_| is_word) else { return false };
    let has_digit = number.chars().any(|c| c.is_ascii_digit())
        || number.trim_end_matches(['.', ':']).chars().all(|c| "IVX".contains(c));
    let is_short = number.chars().count() <= 8;
    let ends = number.ends_with([':', '.', '|', ')', '-', '–', '—'])
        || words.next().is_none_or(|next| {
            next.starts_with(['-', '–', '—', ':', '|', '.']) || next.starts_with(char::is_uppercase)
        });
    has_digit && is_short && ends
}

/// Whether a caption names a figure, not a table.
pub(super) fn names_figure(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    is_caption(text)
        && !word.starts_with("tab")
        && !word.starts_with("tbl")
        && !matches!(word.as_str(), "algorithm" | "listing")
}

pub(super) fn kind(
    draft: &Draft,
    body_size: f32,
    page: &Area,
    lowest_text: f32,
) -> (BlockKind, Option<u8>, bool) {
    if let Some(tag) = draft.tag {
        match tag.role {
            TagRole::Heading(level) if is_heading_like(draft) => {
                return (BlockKind::Heading, Some(level), true);
            }
            TagRole::Caption => return (BlockKind::Caption, None, true),
            TagRole::Note => return (BlockKind::Footnote, None, true),
            TagRole::ListItem => return (BlockKind::ListItem, Some(1), true),
            _ => {}
        }
    }
    let is_small = draft.size < 0.94 * body_size;
    if is_caption(&draft.text) && draft.glyphs < 2_000 {
        return (BlockKind::Caption, None, false);
    }
    if draft.is_mono()
        && draft.glyphs >= 8
        && (draft.lines >= 2 || draft.text.contains(['(', '{', '=', '/', '$', '<']))
    {
        return (BlockKind::Code, None, false);
    }
    if is_small
        && starts_like_footnote(&draft.text)
        && draft.area.y0 > page.y0 + 0.5 * page.height()
        && draft.area.y0 >= lowest_text - 1.0
    {
        return (BlockKind::Footnote, None, false);
    }
    if draft.is_list_item {
        return (BlockKind::ListItem, Some(1), false);
    }
    (BlockKind::Paragraph, None, false)
}

/// Tags of headings are trusted unless the text is a paragraph.
fn is_heading_like(draft: &Draft) -> bool {
    draft.lines <= 5 && draft.glyphs <= 250
}

/// A raised number or a sign at the start.
pub(super) fn starts_like_footnote(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    matches!(first, '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '†' | '‡' | '§' | '¶' | '∗')
        || (first == '*' && !text.starts_with("* "))
        || (first.is_ascii_digit() && text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(' '))
}
