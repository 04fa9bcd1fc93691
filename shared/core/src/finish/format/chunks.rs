//! Chunks for retrieval: JSON lines, each a part of one page under one heading, with where it is.

use serde::Serialize;

use super::{Make, Spec};
use crate::{
    document::{Block, BlockKind, PageBox, TableStyle, markdown, with_html_tables},
    finish::result::{PageResult, ResultDocument},
    ids::PageNumber,
    source::Source,
};

pub const SPEC: Spec = Spec {
    names: &["chunks", "jsonl"],
    extension: "chunks.jsonl",
    mime: "application/x-ndjson",
    make: Make::OnDemand(render),
    has_table_styles: true,
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

fn render(document: &ResultDocument, tables: TableStyle) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks(document, tables) {
        // A chunk has only strings and numbers.
        if serde_json::to_writer(&mut out, &chunk).is_ok() {
            out.push(b'\n');
        }
    }
    out
}

fn chunks(document: &ResultDocument, tables: TableStyle) -> Vec<Chunk<'_>> {
    let mut made: Vec<Chunk<'_>> = Vec::new();
    let mut path: Vec<(u8, String)> = Vec::new();
    for page in document.pages.iter().filter(|page| page.has_text) {
        let mut is_open = false;
        for piece in pieces(page, tables) {
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
fn pieces(page: &PageResult, tables: TableStyle) -> Vec<Piece> {
    let blocks = page.blocks.iter().filter_map(|block| piece_of_block(block, tables));
    let blocks: Vec<Piece> = blocks.collect();
    match tables {
        _ if !blocks.is_empty() => blocks,
        TableStyle::Html => pieces_of_markdown(&with_html_tables(&page.text)),
        TableStyle::Markdown | TableStyle::Auto => pieces_of_markdown(&page.text),
    }
}

fn piece_of_block(block: &Block, tables: TableStyle) -> Option<Piece> {
    if block.kind.is_furniture() {
        return None;
    }
    let text = markdown(std::slice::from_ref(block), tables);
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
    if let Some(table) = HtmlTable::parse(text) {
        return table.split(limit);
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

/// A table as it is written here: one line per row.
struct HtmlTable<'a> {
    head: Vec<&'a str>,
    body: Vec<&'a str>,
}

impl<'a> HtmlTable<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let lines = text.strip_prefix("<table>\n")?.strip_suffix("\n</table>")?;
        let (mut head, mut body) = (Vec::new(), Vec::new());
        let mut is_head = false;
        for line in lines.lines() {
            match line {
                "<thead>" => is_head = true,
                "</thead>" => is_head = false,
                "<tbody>" | "</tbody>" => {}
                row if !row.starts_with("<tr>") || !row.ends_with("</tr>") => return None,
                row if is_head => head.push(row),
                row => body.push(row),
            }
        }
        Some(Self { head, body })
    }

    /// Tables of at most `limit` characters, each with the head. What a cell spans stays together where it fits.
    /// A row that is too long alone becomes plain text.
    fn split(self, limit: usize) -> Vec<String> {
        let head = match self.head.as_slice() {
            [] => String::new(),
            rows => format!("<thead>\n{}\n</thead>\n", rows.join("\n")),
        };
        let (head, rows) = match length(&head) < limit / 2 {
            true => (head, self.body),
            false => (String::new(), self.head.into_iter().chain(self.body).collect()),
        };
        let (open, close) = (format!("<table>\n{head}<tbody>\n"), "</tbody>\n</table>");
        let room = limit.saturating_sub(length(&open) + length(close));
        let mut parts = Vec::new();
        let mut body = String::new();
        let end = |body: &mut String, parts: &mut Vec<String>| {
            if !body.is_empty() {
                parts.push(format!("{open}{body}{close}"));
                body.clear();
            }
        };
        for group in row_groups(&rows) {
            let whole: usize = group.iter().map(|row| length(row) + 1).sum();
            if length(&body) + whole > room {
                end(&mut body, &mut parts);
            }
            for row in group {
                if length(row) + 1 > room {
                    end(&mut body, &mut parts);
                    parts.extend(split(&without_tags(row), limit));
                    continue;
                }
                if length(&body) + length(row) + 1 > room {
                    end(&mut body, &mut parts);
                }
                body.push_str(row);
                body.push('\n');
            }
        }
        end(&mut body, &mut parts);
        parts
    }
}

/// Rows that cells span together.
fn row_groups<'a>(rows: &'a [&'a str]) -> Vec<&'a [&'a str]> {
    let mut groups = Vec::new();
    let (mut start, mut end) = (0, 0);
    for (index, row) in rows.iter().enumerate() {
        if index >= end && index > start {
            groups.push(&rows[start..index]);
            start = index;
        }
        let spans = row.split("rowspan=\"").skip(1);
        let spans = spans.filter_map(|rest| rest.split('"').next()?.parse::<usize>().ok());
        end = end.max(index + spans.max().unwrap_or(1));
    }
    groups.push(&rows[start..]);
    groups
}

/// The words of a row, with a space where a tag was.
fn without_tags(row: &str) -> String {
    let texts = row.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text = texts.collect::<Vec<_>>().join(" ");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    one_line(&text)
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
        let chunks = chunks(&document, TableStyle::Markdown);
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
        let lines = String::from_utf8(render(&document, TableStyle::Markdown)).unwrap();
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
        assert!(
            chunks(&document, TableStyle::Markdown).iter().all(|chunk| length(&chunk.text) <= MAX_CHARACTERS)
        );
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

    #[test]
    fn each_part_of_an_html_table_is_a_table_with_its_head() {
        let long = "x".repeat(3000);
        let rows: String = (0..300)
            .map(|row| match row {
                120 => "<tr><td rowspan=\"3\">120</td><td>spans</td></tr>\n".to_owned(),
                121 | 122 => format!("<tr><td>covered {row}</td></tr>\n"),
                200 => format!("<tr><td>200 &amp; more</td><td>{long}</td></tr>\n"),
                row => format!("<tr><td>{row}</td><td>some words of the row</td></tr>\n"),
            })
            .collect();
        let head = "<thead>\n<tr><th>No</th><th>Words</th></tr>\n</thead>\n";
        let table = format!("<table>\n{head}<tbody>\n{rows}</tbody>\n</table>");
        let parts = split(&table, MAX_CHARACTERS);
        assert!(parts.iter().all(|part| length(part) <= MAX_CHARACTERS));
        let (tables, plain): (Vec<&String>, Vec<&String>) =
            parts.iter().partition(|part| part.starts_with("<table>"));
        assert!(tables.len() > 5);
        for part in &tables {
            assert!(part.starts_with(&format!("<table>\n{head}<tbody>\n<tr><td")), "{part:.120}");
            assert!(part.ends_with("</tr>\n</tbody>\n</table>"), "{part}");
        }
        // What a cell spans is in one part, and no row is lost.
        assert!(tables.iter().any(|part| part.contains("spans") && part.contains("covered 122")));
        assert_eq!(tables.iter().map(|part| part.matches("<tr><td").count()).sum::<usize>(), 299);
        assert!(plain.len() == 2 && plain[0].starts_with("200 & more "));
        // The table of a page is divided in the same way if a model read it.
        let pipes: String = (0..200).map(|row| format!("| {row} | words |\n")).collect();
        let document = document(vec![page(1, &format!("| No | Words |\n| --- | --- |\n{pipes}"), vec![])]);
        let chunks = chunks(&document, TableStyle::Html);
        assert!(chunks.len() > 2 && chunks.iter().all(|chunk| chunk.text.starts_with("<table>\n<thead>")));
    }
}
