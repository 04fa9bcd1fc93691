//! The text layer of a searchable PDF: the text of each page, and where it is as far as that is known.

use crate::{
    document::{Block, LayerSpan, PageWord, Table, place},
    finish::result::PageResult,
    ports::pdf::PageLayer,
    source::Source,
};

/// The layer of a page on which OCR found `words`; `None` for a page without text.
pub(super) fn layer(page: &PageResult, words: &[PageWord]) -> Option<PageLayer> {
    if !page.has_text {
        return None;
    }
    let spans = if words.is_empty() { block_spans(page) } else { place(&plain_text(page), words) };
    (!spans.is_empty()).then_some(PageLayer { page: page.page, spans })
}

/// Without words: the text at the boxes of its blocks.
fn block_spans(page: &PageResult) -> Vec<LayerSpan> {
    let blocks: Vec<LayerSpan> = page.blocks.iter().flat_map(spans_of).collect();
    if !blocks.is_empty() {
        return blocks;
    }
    let text = plain_text(page);
    if text.is_empty() { vec![] } else { vec![LayerSpan::Text { text, area: None }] }
}

fn spans_of(block: &Block) -> Vec<LayerSpan> {
    match &block.table {
        Some(Table { rows, .. }) => {
            let cells = rows.iter().flatten().filter(|cell| !cell.text.trim().is_empty());
            let span = |text: &str, area| LayerSpan::Text { text: text.to_owned(), area };
            cells.map(|cell| span(&cell.text, cell.area.or(Some(block.area)))).collect()
        }
        None if block.text.trim().is_empty() => vec![],
        None => vec![LayerSpan::Text { text: block.text.clone(), area: Some(block.area) }],
    }
}

/// The page's text without markup. What Everypage read itself has its running headers, which the page shows too.
fn plain_text(page: &PageResult) -> String {
    if page.source == Source::AI {
        return page.text.lines().filter_map(without_markup).collect::<Vec<_>>().join("\n");
    }
    if page.blocks.is_empty() {
        return page.text.clone();
    }
    let mut text = String::new();
    for block in &page.blocks {
        block.write_text(&mut text);
        text.push('\n');
    }
    text
}

/// A line of Markdown as plain words; `None` where only markup is on it.
fn without_markup(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches(['#', '>']).trim_start();
    let is_rule = line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '=' | '*' | '_' | '`' | '~'));
    if is_rule {
        return None;
    }
    let plain = line.replace("**", "").replace("__", "").replace('|', " ").replace('`', "");
    let words: Vec<&str> = plain.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_left_out_of_the_text_layer() {
        for (line, expected) in [
            ("## Costs", Some("Costs")),
            ("| a | **b** |", Some("a b")),
            ("| --- | :-: |", None),
            ("```", None),
            ("", None),
            ("plain  words", Some("plain words")),
            ("> quoted", Some("quoted")),
        ] {
            assert_eq!(without_markup(line).as_deref(), expected, "{line}");
        }
    }
}
