//! A result in any of its formats: stored, rendered now, or made from the document.

use super::{
    format::{Format, Make},
    result::{PageResult, ResultDocument},
    results,
};
use crate::{
    document::{Block, Table, TableStyle},
    job::{Job, StepError},
    ports::pdf::{LayerSpan, PageLayer},
    prepare::{self, Preparer},
};

/// A published version's bytes; the latest without a `version`. `None` when there is none.
pub async fn read(
    preparer: &Preparer,
    job: &Job,
    format: Format,
    tables: TableStyle,
    version: Option<u32>,
) -> Result<Option<Vec<u8>>, StepError> {
    let blobs = preparer.blobs.as_ref();
    if format.is_stored(tables) {
        return results::read(blobs, job, format, version).await;
    }
    match results::read_document(blobs, job, version).await? {
        Some(document) => produce(preparer, job, format, tables, &document).await.map(Some),
        None => Ok(None),
    }
}

/// Produces a format from a result that may be provisional.
pub async fn produce(
    preparer: &Preparer,
    job: &Job,
    format: Format,
    tables: TableStyle,
    document: &ResultDocument,
) -> Result<Vec<u8>, StepError> {
    match format.make() {
        Make::Stored(render) | Make::OnDemand(render) => Ok(render(document, tables)),
        Make::FromSource => prepare::searchable(preparer, job, &layers(document)).await,
    }
}

/// The text of each page, and where it is as far as that is known. The parser leaves out pages that have sound
/// text of their own.
fn layers(document: &ResultDocument) -> Vec<PageLayer> {
    let pages = document.pages.iter().filter(|page| page.has_text);
    let layers = pages.map(|page| PageLayer { page: page.page, spans: spans(page) });
    layers.filter(|layer| !layer.spans.is_empty()).collect()
}

fn spans(page: &PageResult) -> Vec<LayerSpan> {
    let blocks: Vec<LayerSpan> = page.blocks.iter().flat_map(block_spans).collect();
    if !blocks.is_empty() {
        return blocks;
    }
    // What an AI wrote is Markdown without places.
    let text = page.text.lines().filter_map(without_markup).collect::<Vec<_>>().join("\n");
    if text.is_empty() { Vec::new() } else { vec![LayerSpan { text, area: None }] }
}

fn block_spans(block: &Block) -> Vec<LayerSpan> {
    let whole = |text: String| LayerSpan { text, area: Some(block.area) };
    match &block.table {
        Some(Table { rows, .. }) => {
            let cells = rows.iter().flatten().filter(|cell| !cell.text.trim().is_empty());
            cells
                .map(|cell| LayerSpan { text: cell.text.clone(), area: cell.area.or(Some(block.area)) })
                .collect()
        }
        None if block.text.trim().is_empty() => Vec::new(),
        None => vec![whole(block.text.clone())],
    }
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
