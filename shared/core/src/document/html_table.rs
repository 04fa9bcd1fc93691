//! Tables as HTML, for what a Markdown table can't hold: spans, several header rows, line breaks.

use std::fmt::Write;

use super::{Table, block::with_marks};

/// Whether the table has what a Markdown table would lose.
pub(super) fn is_needed(table: &Table) -> bool {
    let mut cells = table.rows.iter().flatten();
    table.header_rows > 1
        || cells.any(|cell| cell.columns > 1 || cell.rows > 1 || cell.text.trim().contains('\n'))
}

/// One line per row, and no empty line, which would end the HTML in Markdown. Empty without cells.
pub(super) fn write(table: &Table) -> String {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    if columns == 0 {
        return String::new();
    }
    let spans = spans(table, columns);
    let is_head = |row: usize| row < usize::from(table.header_rows);
    let rows = table.rows.iter().zip(spans).enumerate().map(|(index, (row, spans))| {
        let name = if is_head(index) { "th" } else { "td" };
        let mut out = String::from("<tr>");
        for (column, span) in spans.into_iter().enumerate() {
            let Some(Span { columns, rows }) = span else { continue };
            let text = row.get(column).map(|cell| cell.text.as_str()).unwrap_or_default();
            let _ = write!(out, "<{name}");
            if columns > 1 {
                let _ = write!(out, " colspan=\"{columns}\"");
            }
            if rows > 1 {
                let _ = write!(out, " rowspan=\"{rows}\"");
            }
            let _ = write!(out, ">{}</{name}>", cell_text(text));
        }
        out + "</tr>"
    });
    let rows: Vec<String> = rows.collect();
    let (head, body) = rows.split_at(usize::from(table.header_rows).min(rows.len()));
    assemble(head, body)
}

/// A table of rows that are written already.
fn assemble(head: &[String], body: &[String]) -> String {
    let mut out = String::from("<table>\n");
    for (name, rows) in [("thead", head), ("tbody", body)] {
        if !rows.is_empty() {
            let _ = writeln!(out, "<{name}>\n{}\n</{name}>", rows.join("\n"));
        }
    }
    out + "</table>"
}

#[derive(Clone, Copy)]
struct Span {
    columns: usize,
    rows: usize,
}

/// What each cell spans; `None` for a cell that another one covers. A span that would hide text, or leave its part
/// of the table, ends before.
fn spans(table: &Table, columns: usize) -> Vec<Vec<Option<Span>>> {
    let mut spans = vec![vec![Some(Span { columns: 1, rows: 1 }); columns]; table.rows.len()];
    let is_empty = |row: usize, column: usize| {
        table.rows[row].get(column).is_none_or(|cell| cell.text.trim().is_empty())
    };
    for row in 0..table.rows.len() {
        for column in 0..columns {
            let Some(cell) = table.rows[row].get(column).filter(|_| spans[row][column].is_some()) else {
                continue;
            };
            let head = usize::from(table.header_rows).min(table.rows.len());
            let last = if row < head { head } else { table.rows.len() };
            let rights = column + 1..columns.min(column + usize::from(cell.columns.max(1)));
            let is_free = |spans: &[Vec<Option<Span>>], row: usize, column: usize| {
                spans[row][column].is_some() && is_empty(row, column)
            };
            let wide = 1 + rights.take_while(|right| is_free(&spans, row, *right)).count();
            let below = row + 1..last.min(row + usize::from(cell.rows.max(1)));
            let high = 1 + below
                .take_while(|below| (column..column + wide).all(|column| is_free(&spans, *below, column)))
                .count();
            for covered in &mut spans[row..row + high] {
                covered[column..column + wide].fill(None);
            }
            spans[row][column] = Some(Span { columns: wide, rows: high });
        }
    }
    spans
}

fn cell_text(text: &str) -> String {
    let lines = text.lines().map(|line| escaped(&with_marks(line.trim())));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Markdown with its pipe tables as HTML. Code and tables that are HTML already stay as they are.
pub fn with_html_tables(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        let length = if fence.is_none() { pipe_table(&lines[index..]) } else { 0 };
        if length == 0 {
            out.push((*line).to_owned());
            index += 1;
            continue;
        }
        // Text right before or after the table would become part of the HTML, or the HTML of a paragraph.
        if out.last().is_some_and(|last| !last.trim().is_empty()) {
            out.push(String::new());
        }
        out.push(write_pipe_table(&lines[index..index + length]));
        index += length;
        if lines.get(index).is_some_and(|next| !next.trim().is_empty()) {
            out.push(String::new());
        }
    }
    out.join("\n")
}

/// How many lines the pipe table has that begins here; 0 if none does.
fn pipe_table(lines: &[&str]) -> usize {
    let [head, rule, ..] = lines else { return 0 };
    let is_rule = |cell: &String| {
        let dashes = cell.trim_matches(':');
        !dashes.is_empty() && dashes.chars().all(|c| c == '-')
    };
    let (names, rules) = (pipe_cells(head), pipe_cells(rule));
    let is_table = head.contains('|') && rule.contains('|');
    if !is_table || names.len() != rules.len() || !rules.iter().all(is_rule) {
        return 0;
    }
    2 + lines[2..].iter().take_while(|line| line.contains('|')).count()
}

fn write_pipe_table(lines: &[&str]) -> String {
    let columns = pipe_cells(lines[0]).len();
    let row = |name: &str, line: &str| {
        let mut cells = pipe_cells(line);
        cells.resize(columns.max(cells.len()), String::new());
        let cells = cells.iter().map(|cell| format!("<{name}>{}</{name}>", inline_html(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let body: Vec<String> = lines[2..].iter().map(|line| row("td", line)).collect();
    assemble(&[row("th", lines[0])], &body)
}

/// The cells of a line of a pipe table.
fn pipe_cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&'|') => {
                characters.next();
                cells.last_mut().expect("there is a cell").push('|');
            }
            '|' if characters.peek().is_none() => break,
            '|' => cells.push(String::new()),
            c => cells.last_mut().expect("there is a cell").push(c),
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The Markdown of a cell as HTML: bold and code, which HTML would show as they are written. Tags and entities are
/// HTML in Markdown too.
fn inline_html(text: &str) -> String {
    let mut out = String::new();
    for (index, c) in text.char_indices() {
        let rest = &text[index + c.len_utf8()..];
        match c {
            '<' if !is_tag(rest) => out.push_str("&lt;"),
            '&' if !is_entity(rest) => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    paired(&paired(&out, "`", "code"), "**", "strong")
}

fn is_tag(rest: &str) -> bool {
    let name = rest.strip_prefix('/').unwrap_or(rest);
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.contains('>')
}

fn is_entity(rest: &str) -> bool {
    let Some((name, _)) = rest.split_once(';') else { return false };
    let name = name.strip_prefix('#').unwrap_or(name);
    !name.is_empty() && name.len() <= 31 && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Marks in pairs become a tag; a mark without its pair stays.
fn paired(text: &str, mark: &str, tag: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let pairs = (parts.len() - 1) / 2;
    let mut out = parts[0].to_owned();
    for (index, part) in parts.iter().enumerate().skip(1) {
        match index {
            index if index > 2 * pairs => out.push_str(mark),
            index if index % 2 == 1 => out.push_str(&format!("<{tag}>")),
            _ => out.push_str(&format!("</{tag}>")),
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    fn cell(text: &str) -> Cell {
        Cell { text: text.into(), columns: 1, rows: 1, ..Cell::default() }
    }

    fn spanning(text: &str, columns: u16, rows: u16) -> Cell {
        Cell { columns, rows, ..cell(text) }
    }

    fn table(header_rows: u16, rows: Vec<Vec<Cell>>) -> Table {
        Table { rows, header_rows, ..Table::default() }
    }

    #[test]
    fn spans_are_kept_and_covered_cells_left_out() {
        let table = table(
            2,
            vec![
                vec![spanning("Port", 1, 2), spanning("Tonnes", 2, 1), cell("")],
                vec![cell(""), cell("in"), cell("out")],
                vec![cell("North"), cell("1"), spanning("2", 1, 9)],
                vec![spanning("South", 2, 1), cell(""), cell("")],
            ],
        );
        assert!(is_needed(&table));
        let expected = "<table>\n<thead>\n\
            <tr><th rowspan=\"2\">Port</th><th colspan=\"2\">Tonnes</th></tr>\n\
            <tr><th>in</th><th>out</th></tr>\n</thead>\n<tbody>\n\
            <tr><td>North</td><td>1</td><td rowspan=\"2\">2</td></tr>\n\
            <tr><td colspan=\"2\">South</td></tr>\n</tbody>\n</table>";
        assert_eq!(write(&table), expected);
    }

    #[test]
    fn a_span_never_hides_text_and_ends_with_its_part_of_the_table() {
        // Two cells that a span would cover have text; the header's span would reach into the body.
        let table = table(
            1,
            vec![vec![spanning("a", 3, 3), cell(""), cell("c")], vec![cell(""), cell("")], vec![cell("x")]],
        );
        let html = write(&table);
        assert_eq!(
            html,
            "<table>\n<thead>\n<tr><th colspan=\"2\">a</th><th>c</th></tr>\n</thead>\n<tbody>\n\
            <tr><td></td><td></td><td></td></tr>\n<tr><td>x</td><td></td><td></td></tr>\n</tbody>\n</table>"
        );
    }

    #[test]
    fn text_is_escaped_and_line_breaks_are_kept() {
        let table = table(0, vec![vec![cell("a < b & \"c\" > d"), cell("one\n\n two\n☒ three")]]);
        assert!(is_needed(&table));
        assert_eq!(
            write(&table),
            "<table>\n<tbody>\n<tr><td>a &lt; b &amp; &quot;c&quot; &gt; d</td>\
            <td>one<br>two<br>[x] three</td></tr>\n</tbody>\n</table>"
        );
        assert_eq!(write(&Table::default()), "");
        assert!(!is_needed(&super::super::Table { rows: vec![vec![cell("a")]], ..Table::default() }));
    }

    #[test]
    fn pipe_tables_become_html_and_nothing_else_changes() {
        let text = "Before\n| a | b\\|c |\n|:--|---:|\n| **1** | `x` < 2 & &amp; <br> |\n| 3 |\nAfter | all\n\n\
            ```\n| no | table |\n| --- | --- |\n```\n\n<table>\n<tr><td>| a |</td></tr>\n</table>\n\n\
            a | b\nno rule | here";
        let expected = "Before\n\n<table>\n<thead>\n<tr><th>a</th><th>b|c</th></tr>\n</thead>\n<tbody>\n\
            <tr><td><strong>1</strong></td><td><code>x</code> &lt; 2 &amp; &amp; <br></td></tr>\n\
            <tr><td>3</td><td></td></tr>\n<tr><td>After</td><td>all</td></tr>\n</tbody>\n</table>\n\n\
            ```\n| no | table |\n| --- | --- |\n```\n\n<table>\n<tr><td>| a |</td></tr>\n</table>\n\n\
            a | b\nno rule | here";
        assert_eq!(with_html_tables(text), expected);
        assert_eq!(with_html_tables("plain"), "plain");
    }

    #[test]
    fn a_mark_without_its_pair_stays() {
        assert_eq!(paired("a ** b ** c ** d", "**", "strong"), "a <strong> b </strong> c ** d");
    }
}
