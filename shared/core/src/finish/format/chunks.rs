//! Chunks for retrieval: JSON lines, each a part of one page under one heading, with where it is.

use serde::Serialize;

use super::{Make, Spec};
use crate::{
    document::{Block, BlockKind, PageBox, markdown},
    finish::result::{PageResult, ResultDocument},
    ids::PageNumber,
    source::Source,
};

pub const SPEC: Spec = Spec {
    names: &["chunks", "jsonl"],
    extension: "chunks.jsonl",
    mime: "application/x-ndjson",
    make: Make::OnDemand(render),
};

/// Characters of a chunk at most: a few hundred tokens, which embedding models take as a whole.
const MAX_CHARACTERS: usize = 2000;

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Chunk<'a> {
    /// Unique over all results.
    id: String,
    document: &'a str,
    document_sha256: &'a str,
    page: PageNumber,
    /// The place of the page in the Markdown format.
    anchor: String,
    /// The headings that the chunk is under, outermost first.
    headings: Vec<String>,
    /// Markdown.
    text: String,
    source: Source,
    /// What the chunk is made of, where our own reading knows it: left, top, right, bottom in points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    boxes: Vec<PageBox>,
}

/// A part of a page that is not divided without need.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    /// Set for a heading: its level and its words.
    heading: Option<(u8, String)>,
    text: String,
    area: Option<PageBox>,
}

fn render(document: &ResultDocument) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks(document) {
        // A chunk has only strings and numbers.
        if serde_json::to_writer(&mut out, &chunk).is_ok() {
            out.push(b'\n');
        }
    }
    out
}

fn chunks(document: &ResultDocument) -> Vec<Chunk<'_>> {
    let mut made: Vec<Chunk<'_>> = Vec::new();
    let mut path: Vec<(u8, String)> = Vec::new();
    for page in document.pages.iter().filter(|page| page.has_text) {
        let mut is_open = false;
        for piece in pieces(page) {
            if let Some((level, words)) = &piece.heading {
                path.retain(|(above, _)| above < level);
                path.push((*level, words.clone()));
                is_open = false;
            }
            for text in split(&piece.text, MAX_CHARACTERS) {
                let last = made.last_mut().filter(|_| is_open);
                let fitting = last.filter(|chunk| length(&chunk.text) + 2 + length(&text) <= MAX_CHARACTERS);
                match fitting {
                    Some(chunk) => {
                        chunk.text.push_str("\n\n");
                        chunk.text.push_str(&text);
                        chunk.boxes.extend(piece.area);
                    }
                    None => made.push(Chunk {
                        id: format!("{}-v{}-{}", document.job_id, document.version, made.len() + 1),
                        document: &document.document,
                        document_sha256: &document.document_sha256,
                        page: page.page,
                        anchor: format!("#page-{}", page.page),
                        headings: path.iter().map(|(_, words)| words.clone()).collect(),
                        text,
                        source: page.source,
                        boxes: piece.area.into_iter().collect(),
                    }),
                }
                is_open = true;
            }
        }
    }
    made
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The parts of a page: its blocks, else the paragraphs of its Markdown.
fn pieces(page: &PageResult) -> Vec<Piece> {
    let blocks: Vec<Piece> = page.blocks.iter().filter_map(piece_of_block).collect();
    match blocks.is_empty() {
        true => pieces_of_markdown(&page.text),
        false => blocks,
    }
}

fn piece_of_block(block: &Block) -> Option<Piece> {
    if block.kind.is_furniture() {
        return None;
    }
    let text = markdown(std::slice::from_ref(block));
    let heading =
        (block.kind == BlockKind::Heading).then(|| (block.level.unwrap_or(2), one_line(&block.text)));
    let area = (!block.area.is_empty()).then_some(block.area);
    (!text.is_empty()).then_some(Piece { heading, text, area })
}

/// Paragraphs are divided by blank lines, except in a code block; a heading is a part of its own.
fn pieces_of_markdown(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut is_code = false;
    let end = |lines: &mut Vec<&str>, pieces: &mut Vec<Piece>| {
        let text = lines.join("\n").trim().to_owned();
        lines.clear();
        if !text.is_empty() {
            pieces.push(Piece { text, ..Piece::default() });
        }
    };
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        if is_fence {
            is_code = !is_code;
        }
        let heading = heading(line).filter(|_| !is_code);
        if heading.is_some() || (line.trim().is_empty() && !is_code) {
            end(&mut lines, &mut pieces);
        }
        match heading {
            Some(heading) => {
                pieces.push(Piece { heading: Some(heading), text: line.trim().to_owned(), area: None });
            }
            None => lines.push(line),
        }
    }
    end(&mut lines, &mut pieces);
    pieces
}

/// Level and words of a heading such as `## Costs`.
fn heading(line: &str) -> Option<(u8, String)> {
    let line = line.trim();
    let words = line.trim_start_matches('#');
    let level = u8::try_from(line.len() - words.len()).ok().filter(|level| (1..=6).contains(level))?;
    let words = words.strip_prefix(' ')?.trim_end_matches('#').trim();
    (!words.is_empty()).then(|| (level, one_line(words)))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Divides a text into parts of at most `limit` characters: a table between its rows, each part with the names of
/// the columns; other text between lines, sentences, words, and at last anywhere.
fn split(text: &str, limit: usize) -> Vec<String> {
    if length(text) <= limit {
        return vec![text.to_owned()];
    }
    let (head, body) = match table_head(text) {
        Some(head) if length(head) < limit / 2 => (head, &text[head.len()..]),
        _ => ("", text),
    };
    let limit = limit - length(head);
    let mut parts = Vec::new();
    let mut rest = body.trim_start_matches('\n');
    while !rest.is_empty() {
        let end = rest.char_indices().nth(limit).map_or(rest.len(), |(index, _)| index);
        let cut = if end == rest.len() { end } else { cut(&rest[..end]) };
        parts.push(format!("{head}{}", rest[..cut].trim_end()));
        rest = rest[cut..].trim_start();
    }
    parts
}

/// Where to divide: after the last line, else sentence, else word that begins in the second half.
fn cut(text: &str) -> usize {
    let half = text.len() / 2;
    let after = |found: Option<usize>, length: usize| found.map(|at| at + length).filter(|at| *at > half);
    after(text.rfind('\n'), 1)
        .or_else(|| after(text.rfind(". "), 2))
        .or_else(|| after(text.rfind(' '), 1))
        .unwrap_or(text.len())
}

/// The two lines that begin a Markdown table.
fn table_head(text: &str) -> Option<&str> {
    let first = text.find('\n')? + 1;
    let second = first + text[first..].find('\n')? + 1;
    let is_rule = text[first..second].trim().chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    (text.starts_with('|') && is_rule).then(|| &text[..second])
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        document::Reason,
        finish::result::{Cause, PageInput, assemble},
        ids::JobId,
        source::TextSource,
    };

    fn page(number: u32, text: &str, blocks: Vec<Block>) -> PageInput {
        PageInput {
            page: PageNumber::new(number).unwrap(),
            reason: Reason::Text,
            own_text: Some(text.into()),
            own_source: TextSource::Mupdf,
            own_blocks: blocks,
            awaits_ocr: false,
            confidence: None,
            doubts: vec![],
            fault: None,
            sent_to_ai: false,
            other_calls: vec![],
            settled: None,
        }
    }

    fn document(pages: Vec<PageInput>) -> ResultDocument {
        let about = ("a.pdf".to_owned(), "sha".to_owned());
        assemble(JobId::new("J"), 1, about, Timestamp::UNIX_EPOCH, Cause::Settled, pages)
    }

    fn block(kind: BlockKind, level: Option<u8>, text: &str, top: i32) -> Block {
        Block { kind, level, text: text.into(), area: PageBox([10, top, 100, top + 10]), ..Block::default() }
    }

    #[test]
    fn a_chunk_is_on_one_page_under_one_heading() {
        let first = vec![
            block(BlockKind::PageHeader, None, "Report", 0),
            block(BlockKind::Heading, Some(1), "Harbour", 10),
            block(BlockKind::Paragraph, None, "One.", 20),
            block(BlockKind::Paragraph, None, "Two.", 30),
            block(BlockKind::Heading, Some(2), "Costs", 40),
            block(BlockKind::Paragraph, None, "Three.", 50),
        ];
        let document = document(vec![
            page(1, "x", first),
            page(2, "Four.\n\n## Plans\nFive.\n\n```\n# no heading\n\ncode\n```", vec![]),
            page(3, "", vec![]),
        ]);
        let chunks = chunks(&document);
        let seen: Vec<(u32, Vec<&str>, &str)> = chunks
            .iter()
            .map(|chunk| {
                let headings = chunk.headings.iter().map(String::as_str).collect();
                (chunk.page.get(), headings, chunk.text.as_str())
            })
            .collect();
        assert_eq!(
            seen,
            [
                (1, vec!["Harbour"], "# Harbour\n\nOne.\n\nTwo."),
                (1, vec!["Harbour", "Costs"], "## Costs\n\nThree."),
                (2, vec!["Harbour", "Costs"], "Four."),
                (2, vec!["Harbour", "Plans"], "## Plans\n\nFive.\n\n```\n# no heading\n\ncode\n```"),
            ]
        );
        assert_eq!(chunks[1].boxes, [PageBox([10, 40, 100, 50]), PageBox([10, 50, 100, 60])]);
        assert_eq!((chunks[3].anchor.as_str(), chunks[3].id.as_str()), ("#page-2", "J-v1-4"));
        let lines = String::from_utf8(render(&document)).unwrap();
        assert_eq!(lines.lines().count(), 4);
        for line in lines.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].is_string());
        }
    }

    #[test]
    fn a_chunk_has_a_bounded_size_and_nothing_is_lost() {
        let sentence = "The quay was rebuilt in the year of the flood. ";
        let long = sentence.repeat(200);
        let word = "ä".repeat(5000);
        for text in [long.trim(), word.as_str()] {
            let parts = split(text, MAX_CHARACTERS);
            assert!(parts.iter().all(|part| length(part) <= MAX_CHARACTERS && !part.is_empty()));
            let joined = parts.join(" ").replace(' ', "");
            assert_eq!(joined, text.replace(' ', ""));
        }
        assert!(split(long.trim(), MAX_CHARACTERS)[0].ends_with("flood."));
        let document = document(vec![page(1, &long, vec![])]);
        assert!(chunks(&document).iter().all(|chunk| length(&chunk.text) <= MAX_CHARACTERS));
    }

    #[test]
    fn each_part_of_a_table_names_its_columns() {
        let rows: String = (0..300).map(|row| format!("| {row} | some words of the row |\n")).collect();
        let table = format!("| No | Words |\n| --- | --- |\n{rows}");
        let parts = split(table.trim_end(), MAX_CHARACTERS);
        assert!(parts.len() > 3);
        for part in &parts {
            assert!(part.starts_with("| No | Words |\n| --- | --- |\n| "), "{part:.80}");
            assert!(part.ends_with('|') && length(part) <= MAX_CHARACTERS);
        }
    }
}
