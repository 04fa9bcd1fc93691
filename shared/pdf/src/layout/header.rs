//! Which rows of a table name its columns.

use super::{grid::Cells, records::is_number};

/// A head has at most this many rows.
const MAX_HEAD_ROWS: usize = 3;
/// A column has numbers if at least this part of its cells are.
const MIN_NUMBERS_PERCENT: usize = 60;

/// What a row shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Its filled cells are tagged as heads.
    is_tagged: bool,
    is_bold: bool,
    /// A cell spans several columns, but not all.
    has_span: bool,
    filled: usize,
    /// Per column, whether the cell is a number; `None` if it is empty.
    numbers: Vec<Option<bool>>,
}

/// The number of leading rows that are the head: by tags, by weight, by the line below them, by text over numbers.
pub(super) fn rows(cells: &Cells) -> usize {
    let looks: Vec<Look> =
        (0..cells.rows()).map(|row| look(cells, row)).filter(|look| look.filled > 0).collect();
    decide(&looks, cells.line_below_head)
}

fn look(cells: &Cells, row: usize) -> Look {
    let range = row * cells.columns..(row + 1) * cells.columns;
    let own = &cells.cells[range.clone()];
    let parts = || own.iter().flatten();
    let is_span = |span: &(u16, u16)| span.0 > 1 && usize::from(span.0) < cells.columns;
    let number = |cell: &Vec<_>| match cell.as_slice() {
        [] => None,
        parts => Some(parts.iter().all(|part: &super::fragment::Fragment| is_amount(&part.text))),
    };
    Look {
        is_tagged: parts().next().is_some()
            && parts().all(|part| part.tag.is_some_and(|tag| tag.is_head_cell())),
        is_bold: parts().next().is_some() && parts().all(super::fragment::Fragment::is_bold),
        has_span: cells.spans[range].iter().any(is_span),
        filled: own.iter().filter(|cell| !cell.is_empty()).count(),
        numbers: own.iter().map(number).collect(),
    }
}

/// A number that is no year: years name columns.
fn is_amount(text: &str) -> bool {
    let is_year = text.len() == 4 && text.parse::<u32>().is_ok_and(|year| (1800..2100).contains(&year));
    is_number(text) && !is_year
}

fn decide(rows: &[Look], line_below: Option<usize>) -> usize {
    let leading = |is_head: &dyn Fn(&Look) -> bool| rows.iter().take_while(|row| is_head(row)).count();
    let tagged = leading(&|row| row.is_tagged);
    let bold = leading(&|row| row.is_bold);
    if rows.len() < 2 {
        return tagged.max(bold);
    }
    if tagged > 0 {
        return if tagged < rows.len() { tagged.min(MAX_HEAD_ROWS) } else { 1 };
    }
    let is_rest_plain = rows.iter().skip(bold).filter(|row| row.is_bold).count() * 2 < rows.len();
    if (1..=MAX_HEAD_ROWS).contains(&bold) && bold < rows.len() && is_rest_plain {
        return bold;
    }
    let over_numbers = rows_over_numbers(rows);
    if let Some(lines) = line_below.filter(|lines| (1..=MAX_HEAD_ROWS).contains(lines) && *lines < rows.len())
    {
        // A line below each row says nothing of a second row of heads.
        return lines.max(over_numbers.unwrap_or(0));
    }
    match over_numbers {
        Some(count) => count,
        None if rows[0].has_span && rows.len() > 2 && !rows[1].numbers.contains(&Some(true)) => 2,
        None => 1,
    }
}

/// Leading rows with text above columns of numbers; `None` if no column has numbers.
fn rows_over_numbers(rows: &[Look]) -> Option<usize> {
    let columns = rows.first()?.numbers.len();
    let body = &rows[1.min(rows.len())..];
    let has_numbers = |column: &usize| {
        let cells = || body.iter().filter_map(|row| row.numbers.get(*column).copied().flatten());
        let (all, numbers) = (cells().count(), cells().filter(|number| *number).count());
        all > 0 && numbers * 100 >= all * MIN_NUMBERS_PERCENT
    };
    let of_numbers: Vec<usize> = (0..columns).filter(has_numbers).collect();
    if of_numbers.is_empty() {
        return None;
    }
    let is_head = |row: &Look| {
        let texts = of_numbers.iter().filter(|column| row.numbers[**column] == Some(false)).count();
        let numbers = of_numbers.iter().filter(|column| row.numbers[**column] == Some(true)).count();
        // Nothing but the name of a group of rows is no head.
        numbers == 0 && (texts > 0 || row.has_span)
    };
    Some(rows.iter().take(MAX_HEAD_ROWS).take_while(|row| is_head(row)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row by its cells: `a` is text, `1` a number, `.` empty; `>` spans the next column.
    fn row(cells: &str, is_bold: bool) -> Look {
        let numbers: Vec<Option<bool>> = cells
            .chars()
            .map(|c| match c {
                '1' => Some(true),
                '.' => None,
                _ => Some(false),
            })
            .collect();
        let filled = numbers.iter().flatten().count();
        Look { is_bold, has_span: cells.contains('>'), filled, numbers, ..Look::default() }
    }

    #[test]
    fn heads_are_found_by_what_rows_show() {
        type Rows = &'static [(&'static str, bool)];
        let cases: [(Rows, Option<usize>, usize); 12] = [
            (&[("aaa", true), ("aaa", false), ("aaa", false)], None, 1),
            (&[("aaa", true), ("aaa", true), ("a11", false), ("a11", false)], None, 2),
            (&[("aaa", false), ("a11", false), ("a11", false)], None, 1),
            (&[(".>.", false), (".aa", false), ("a11", false), ("a11", false)], None, 2),
            (&[("aaa", false), ("a..", false), ("a11", false), ("a11", false)], None, 1),
            (&[("a11", false), ("a11", false), ("a11", false)], None, 0),
            (&[("aa", false), ("aa", false), ("aa", false)], None, 1),
            (&[("aa", false), ("aa", false), ("aa", false)], Some(2), 2),
            (&[("aa", false), ("aa", false), ("aa", false)], Some(3), 1),
            (&[("a>a", false), ("aaa", false), ("aaa", false)], None, 2),
            (&[("aaa", true), ("aaa", true), ("aaa", true)], None, 1),
            (&[("aa", false)], None, 0),
        ];
        for (cells, line_below, expected) in cases {
            let rows: Vec<Look> = cells.iter().map(|(cells, is_bold)| row(cells, *is_bold)).collect();
            assert_eq!(decide(&rows, line_below), expected, "{cells:?}");
        }
    }

    #[test]
    fn tags_of_heads_are_trusted_unless_all_cells_have_them() {
        let tagged = |is_tagged| Look { is_tagged, ..row("aa", false) };
        assert_eq!(decide(&[tagged(true), tagged(true), tagged(false)], None), 2);
        assert_eq!(decide(&[tagged(true), tagged(true)], None), 1);
        assert!(is_amount("12,5 %") && !is_amount("2024") && !is_amount("n = 3"));
    }
}
