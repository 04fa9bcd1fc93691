//! Tables without lines, or with horizontal ones only: columns are the white space that rows share.

use super::{
    fragment::Fragment,
    grid::Cells,
    records::{self, LineCells},
    row::Row,
};

/// Columns are separated by at least this many ems of white space.
const MIN_SEPARATOR_EMS: f32 = 0.5;
/// Part of the rows that may cross a separator: headers over several columns, notes.
const MAX_CROSSING_SHARE: f32 = 0.12;
/// Of a table whose columns are not drawn.
const MAX_CONFIDENCE: f32 = 0.97;
/// Part of the cells of an aligned column that are.
const MIN_ALIGNMENT: f32 = 0.6;
/// More columns than a table has.
const MAX_COLUMNS: usize = 60;

/// Rows of heads over several columns.
const MAX_HEADS_OVER_COLUMNS: usize = 2;
/// A single text this much larger than those of the table is the heading of what follows.
const MIN_HEADING_RATIO: f32 = 1.12;
/// Lines of one cell are at most this far apart.
const MAX_CELL_LEADING_EMS: f32 = 1.6;

/// So many rows of so many parts look like a table, even if nothing is aligned.
const MIN_TABULAR_ROWS: usize = 4;
const MIN_TABULAR_PARTS: usize = 3;
/// Between rules, fewer rows of two parts do.
const MIN_RULED_ROWS: usize = 3;

/// How sure one must be that rows are a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Only their alignment.
    Alignment,
    /// They are between horizontal lines of the same length.
    Rules,
}

/// Why rows are not a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoTable {
    /// They look like one all the same, whose columns could not be found.
    pub is_tabular: bool,
}

impl NoTable {
    const TEXT: Self = Self { is_tabular: false };

    /// At least `rows` rows have `parts` parts.
    fn if_many(rows: &[Row], count: usize, parts: usize) -> Self {
        let many = rows.iter().filter(|row| row.fragments.len() >= parts).count();
        Self { is_tabular: many >= count }
    }
}

/// The rows as a table, if they are one. `lines` are the heights of lines that are drawn between them.
pub(super) fn table(rows: &[Row], lines: &[f32], evidence: Evidence) -> Result<Cells, NoTable> {
    if rows.len() < 2 {
        return Err(NoTable::TEXT);
    }
    let size = median(rows.iter().map(|row| row.size));
    // Heads over several columns cross what separates these.
    let heads = heads_over_columns(rows);
    let mut separators = separators(&rows[heads..], size);
    if !(2..=MAX_COLUMNS).contains(&(separators.len() + 1)) {
        return Err(match evidence {
            Evidence::Rules => NoTable::if_many(rows, MIN_RULED_ROWS, 2),
            Evidence::Alignment => NoTable::TEXT,
        });
    }
    let mut grid: Vec<LineCells> = rows.iter().map(|row| split(row, &separators)).collect();
    join_heads(&mut grid, &mut separators);
    let found = records::find(&grid, rows, lines, size);
    let lengths = lengths(&grid);
    let starts: Vec<usize> = (0..rows.len()).filter(|row| !found.continues[*row]).collect();
    let grid = records::joined(grid, &found.continues);
    let evidence_of_rows = if found.are_apart { Evidence::Rules } else { evidence };
    match plausibility(&grid, &lengths, evidence, evidence_of_rows, size) {
        Plausibility::Table => {}
        Plausibility::Text => return Err(NoTable::TEXT),
        Plausibility::Sparse => {
            return Err(match evidence {
                Evidence::Rules => NoTable::if_many(rows, MIN_RULED_ROWS, 2),
                Evidence::Alignment => NoTable::TEXT,
            });
        }
        Plausibility::Unaligned => return Err(NoTable::if_many(rows, MIN_TABULAR_ROWS, MIN_TABULAR_PARTS)),
    }
    let confidence = confidence(&grid, evidence, size);
    let mut cells = Cells::new(grid.len(), separators.len() + 1);
    for (at, cell) in grid.into_iter().flatten().enumerate() {
        cells.cells[at] = cell;
    }
    if cells.is_listing() {
        return Err(NoTable::TEXT);
    }
    cells.confidence = confidence;
    cells.span(&separators);
    cells.line_below_head = lines_below(rows, lines, &starts);
    Ok(cells)
}

/// How many rows of the table are above the first line within it.
fn lines_below(rows: &[Row], lines: &[f32], starts: &[usize]) -> Option<usize> {
    let first = rows.first()?.baseline;
    let y = lines.iter().copied().filter(|y| *y > first).min_by(f32::total_cmp)?;
    let above = starts.iter().filter(|row| rows[**row].baseline < y).count();
    (above < starts.len()).then_some(above)
}

/// Characters per line of text, for each column.
fn lengths(grid: &[LineCells]) -> Vec<f32> {
    let columns = grid.first().map_or(0, Vec::len);
    let length = |column: usize| {
        let cells = || grid.iter().map(move |row| &row[column]).filter(|cell| !cell.is_empty());
        let total: usize = cells().flatten().map(|fragment| fragment.text.chars().count()).sum();
        total as f32 / cells().count().max(1) as f32
    };
    (0..columns).map(length).collect()
}

/// How sure it is that the rows are a table and its cells are right, from 0 to 1: most columns are aligned, most cells
/// are filled.
fn confidence(grid: &[LineCells], evidence: Evidence, size: f32) -> f32 {
    let columns = grid.first().map_or(0, Vec::len).max(1);
    let aligned = (0..columns).map(|column| alignment(grid, column, size)).sum::<f32>() / columns as f32;
    let filled = grid.iter().flatten().filter(|cell| !cell.is_empty()).count() as f32;
    let filled = filled / (grid.len() * columns).max(1) as f32;
    let base = match evidence {
        Evidence::Rules => 0.3,
        Evidence::Alignment => 0.0,
    };
    let few = if grid.len() <= 3 && evidence == Evidence::Alignment { 0.1 } else { 0.0 };
    (base + 0.6 * aligned + 0.4 * filled.min(0.8) / 0.8 - few).clamp(0.0, MAX_CONFIDENCE)
}

/// Places that hardly any row crosses, with words on both sides.
fn separators(rows: &[Row], size: f32) -> Vec<f32> {
    // +1 where a row's words begin, -1 where they end; gaps within a row under the width of a space are filled.
    let mut edges: Vec<(f32, i32)> = Vec::new();
    for row in rows {
        let mut intervals: Vec<(f32, f32)> = row
            .fragments
            .iter()
            .flat_map(|fragment| fragment.words.iter().map(|word| (word.x0, word.x1)))
            .filter(|(from, to)| from.is_finite() && to.is_finite())
            .collect();
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut joined: Vec<(f32, f32)> = Vec::with_capacity(intervals.len());
        for (from, to) in intervals {
            match joined.last_mut() {
                Some(last) if from - last.1 < 0.45 * size => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        for (from, to) in joined {
            edges.push((from, 1));
            edges.push((to, -1));
        }
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let max_crossing = (rows.len() as f32 * MAX_CROSSING_SHARE).floor() as i32;
    let mut separators = Vec::new();
    let mut depth = 0;
    let mut free_from: Option<f32> = None;
    let mut has_left = false;
    for (x, change) in edges {
        let was_free = depth <= max_crossing;
        depth += change;
        let is_free = depth <= max_crossing;
        match (was_free, is_free) {
            (false, true) => {
                free_from = Some(x);
                has_left = true;
            }
            (true, false) => {
                if let Some(from) = free_from.take()
                    && has_left
                    && x - from >= MIN_SEPARATOR_EMS * size
                {
                    separators.push((from + x) / 2.0);
                }
            }
            _ => {}
        }
    }
    separators
}

/// The fragments of a row by column. One that spans columns goes to the first of them.
fn split(row: &Row, separators: &[f32]) -> Vec<Vec<Fragment>> {
    let mut cells = vec![Vec::new(); separators.len() + 1];
    for fragment in &row.fragments {
        let mut rest = Some(fragment.clone());
        for (column, x) in separators.iter().enumerate() {
            let Some(current) = rest.take() else { break };
            if current.area.x1 <= *x {
                cells[column].push(current);
                break;
            }
            if current.area.x0 >= *x {
                rest = Some(current);
                continue;
            }
            // Crossed by the separator: it is cut only where two words are apart.
            if is_gap(&current, *x) {
                let (left, right) = current.split_at(*x);
                cells[column].extend(left);
                rest = right;
            } else {
                cells[column].push(current);
                rest = None;
            }
        }
        if let Some(last) = rest.and_then(|rest| cells.last_mut().map(|cell| (cell, rest))) {
            last.0.push(last.1);
        }
    }
    cells
}

/// Whether two words of the fragment are apart at `x`.
pub(super) fn is_gap(fragment: &Fragment, x: f32) -> bool {
    fragment
        .words
        .windows(2)
        .any(|pair| pair[0].x1 <= x && pair[1].x0 >= x && pair[1].x0 - pair[0].x1 >= 0.45 * fragment.size)
}

/// Separators within one column of a table with lines: clear gaps that nearly all rows have.
pub(super) fn inner_separators(rows: &[Row]) -> Vec<f32> {
    let size = median(rows.iter().map(|row| row.size));
    let separators = separators(rows, size);
    if separators.is_empty() || separators.len() >= MAX_COLUMNS {
        return Vec::new();
    }
    let columns = separators.len() + 1;
    let grid: Vec<LineCells> = rows.iter().map(|row| split(row, &separators)).collect();
    let is_filled =
        |column: usize| grid.iter().filter(|row| !row[column].is_empty()).count() * 10 >= grid.len() * 5;
    let is_table = (0..columns).all(is_filled) && !is_list(&grid);
    if is_table { separators } else { Vec::new() }
}

/// What a grid of cells looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plausibility {
    Table,
    /// A list, contents, numbered lines, scales, or prose.
    Text,
    /// Hardly any row has several cells.
    Sparse,
    /// Short texts in rows, in columns that do not begin, end or center anywhere.
    Unaligned,
}

/// `lengths` are those of lines, not of cells; `rows` says how sure it is where each row starts.
fn plausibility(
    grid: &[LineCells],
    lengths: &[f32],
    evidence: Evidence,
    rows: Evidence,
    size: f32,
) -> Plausibility {
    let columns = lengths.len();
    let filled = |row: &LineCells| row.iter().filter(|cell| !cell.is_empty()).count();
    let full_rows = grid.iter().filter(|row| filled(row) >= 2).count();
    let min_full = match evidence {
        Evidence::Rules => 2,
        // Two rows are a table only if all their cells are filled.
        Evidence::Alignment
            if columns >= 3 && grid.len() == 2 && grid.iter().all(|row| filled(row) == columns) =>
        {
            2
        }
        Evidence::Alignment => 3,
    };
    if is_list(grid) || is_contents(grid, columns) || is_numbered(grid) || is_scale(grid, columns) {
        return Plausibility::Text;
    }
    if full_rows < min_full || full_rows * 10 < grid.len() * 5 {
        return Plausibility::Sparse;
    }
    if evidence == Evidence::Rules {
        return Plausibility::Table;
    }
    let short = lengths.iter().filter(|length| **length < 24.0).count();
    let is_short = short * 2 >= columns && lengths.iter().all(|length| *length < 75.0);
    let aligned = (0..columns).filter(|column| alignment(grid, *column, size) >= MIN_ALIGNMENT).count();
    match (is_short || rows == Evidence::Rules, aligned * 10 >= columns * 7) {
        (true, true) => Plausibility::Table,
        (true, false) => Plausibility::Unaligned,
        (false, _) => Plausibility::Text,
    }
}

/// The share of the cells of a column that begin, end or are centered at the same place.
fn alignment(grid: &[LineCells], column: usize, size: f32) -> f32 {
    // Of a cell with several lines, the first and the widest extent count.
    let areas: Vec<(crate::page::Area, crate::page::Area)> = grid
        .iter()
        .filter_map(|row| {
            let right = row[column].iter().max_by(|a, b| a.area.x1.total_cmp(&b.area.x1))?;
            Some((row[column].first()?.area, right.area))
        })
        .collect();
    let tolerance = (0.4 * size).max(2.0);
    let share = |of: &dyn Fn(&(crate::page::Area, crate::page::Area)) -> f32| {
        let mut values: Vec<f32> = areas.iter().map(of).collect();
        values.sort_by(f32::total_cmp);
        let most = (0..values.len())
            .map(|from| values.partition_point(|value| *value <= values[from] + tolerance) - from)
            .max()
            .unwrap_or(0);
        most as f32 / areas.len().max(1) as f32
    };
    let left = share(&|(first, _)| first.x0);
    let right = share(&|(_, last)| last.x1);
    let center = share(&|(first, last)| (first.x0 + last.x1) / 2.0);
    left.max(right).max(center)
}

/// Whether the first column has only markers of list items, or the tags of references: `[Cop87]`.
fn is_list(grid: &[LineCells]) -> bool {
    let first: Vec<&Fragment> = grid.iter().filter_map(|row| row[0].first()).collect();
    let is_tag = |text: &str| text.starts_with('[') && text.ends_with(']');
    let is_marker = |fragment: &&&Fragment| super::lists::is_marker(&fragment.text) || is_tag(&fragment.text);
    let markers = first.iter().filter(is_marker).count();
    let bullets = first.iter().filter(|fragment| super::lists::is_bullet_marker(&fragment.text)).count();
    let has_two_columns = grid.first().is_some_and(|row| row.len() == 2);
    bullets * 10 >= first.len().max(1) * 7 || (has_two_columns && markers * 10 >= first.len() * 7)
}

/// The number in a cell.
fn number(cell: &[Fragment]) -> Option<f64> {
    match cell {
        [part] => part.text.replace(',', ".").replace('−', "-").parse().ok(),
        _ => None,
    }
}

/// Whether two columns are numbered lines: of code, or of a text under review.
fn is_numbered(grid: &[LineCells]) -> bool {
    let numbers: Vec<f64> = grid.iter().filter_map(|row| number(&row[0])).collect();
    let is_series = numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0);
    grid.first().is_some_and(|row| row.len() == 2)
        && numbers.len() == grid.len()
        && numbers.len() >= 2
        && is_series
}

/// Whether all columns are the scales of a chart: numbers with a constant step.
fn is_scale(grid: &[LineCells], columns: usize) -> bool {
    (0..columns).all(|column| {
        let cells = || grid.iter().map(|row| row[column].as_slice()).filter(|cell| !cell.is_empty());
        let numbers: Vec<f64> = cells().filter_map(number).collect();
        let step = numbers.get(1).zip(numbers.first()).map_or(0.0, |(second, first)| second - first);
        let is_even =
            numbers.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < 0.01 * step.abs().max(0.01));
        numbers.len() >= 3 && numbers.len() == cells().count() && is_even && step != 0.0
    })
}

/// Joins columns of which one has only heads and the other only what is below: they are set differently.
fn join_heads(grid: &mut [LineCells], separators: &mut Vec<f32>) {
    let head_rows = if grid.len() >= 4 { 2 } else { 1 };
    let mut column = 0;
    while column + 1 < grid.first().map_or(0, Vec::len) {
        let rows_of = |column: usize| -> Vec<usize> {
            (0..grid.len()).filter(|row| !grid[*row][column].is_empty()).collect()
        };
        let (left, right) = (rows_of(column), rows_of(column + 1));
        let is_head = |rows: &[usize]| !rows.is_empty() && rows.iter().all(|row| *row < head_rows);
        let is_apart = !left.iter().any(|row| right.contains(row));
        if is_apart && is_head(&left) != is_head(&right) && grid.len() >= 3 {
            for row in grid.iter_mut() {
                let more = row.remove(column + 1);
                row[column].extend(more);
            }
            separators.remove(column);
        } else {
            column += 1;
        }
    }
}

/// Whether the rows are a table of contents: leaders, and page numbers at the end.
fn is_contents(grid: &[LineCells], columns: usize) -> bool {
    let has_leader = |row: &LineCells| {
        row.iter().flatten().any(|fragment| {
            let dots = fragment.text.chars().filter(|c| matches!(c, '.' | '·' | '…' | '_')).count();
            fragment.text.contains("....")
                || fragment.text.contains(". . .")
                || dots * 2 > fragment.text.chars().count().max(6)
        })
    };
    columns <= 4 && grid.iter().filter(|row| has_leader(row)).count() * 2 >= grid.len()
}

/// Finds runs of rows that may be tables, as index ranges: rows with several fragments, close to each other, and lines
/// between and after them that only continue their cells.
pub(super) fn runs(rows: &[Row]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        if rows[at].fragments.len() < 2 {
            at += 1;
            continue;
        }
        let mut free = FreeStrips::of(&rows[at]);
        let mut end = at + 1;
        let mut last_full = at;
        while end < rows.len() {
            let (above, row) = (&rows[end - 1], &rows[end]);
            let size = row.size.max(above.size);
            let is_full = row.fragments.len() >= 2;
            let leaves_strip = free.left_by(row);
            let is_cell_line = leaves_strip && row.baseline - above.baseline <= MAX_CELL_LEADING_EMS * size;
            let is_heading = !is_full && row.size > MIN_HEADING_RATIO * rows[at].size;
            let is_far = row.area.y0 - above.area.y1 > 2.2 * size;
            if is_far || is_heading || (!is_full && !is_cell_line && end - last_full > 2) {
                break;
            }
            if leaves_strip {
                free.cross(row);
            }
            if is_full || (is_cell_line && end == last_full + 1 && !free.is_in_first_column(row)) {
                last_full = end;
            }
            end += 1;
        }
        let end = last_full + 1;
        if end - at >= 2 {
            let last = runs.last().map_or(0, |run: &std::ops::Range<usize>| run.end);
            let from = (at.saturating_sub(MAX_HEADS_OVER_COLUMNS).max(last)..at)
                .find(|from| heads_over_columns(&rows[*from..end]) == at - from)
                .unwrap_or(at);
            runs.push(from..end);
        }
        at = end;
    }
    runs
}

/// Whether the lines are one row of a table: the first has several cells, and the others are in columns below them.
pub(super) fn is_one_row(rows: &[Row]) -> bool {
    let Some(first) = rows.first().filter(|row| row.fragments.len() >= 2) else { return false };
    let mut free = FreeStrips::of(first);
    rows.iter().skip(1).all(|row| {
        let leaves_strip = free.left_by(row);
        free.cross(row);
        leaves_strip
    })
}

/// How many leading rows are heads over several columns: right above a row that has more parts, and none of their own
/// over its first.
fn heads_over_columns(rows: &[Row]) -> usize {
    let is_head = |head: &Row, below: &Row| {
        let first = &below.fragments[0];
        head.fragments.len() < below.fragments.len()
            && head.area.x0 > first.area.x1
            && head.area.x1 < below.area.x1 + 2.0 * below.size
            && below.baseline - head.baseline <= MAX_CELL_LEADING_EMS * below.size
    };
    let lead = rows.iter().take(MAX_HEADS_OVER_COLUMNS + 1).position(|row| row.fragments.len() >= 3);
    match lead {
        Some(count) if rows[..=count].windows(2).all(|pair| is_head(&pair[0], &pair[1])) => count,
        _ => 0,
    }
}

/// White strips that the rows of a run have in common.
struct FreeStrips(Vec<(f32, f32)>);

impl FreeStrips {
    fn of(row: &Row) -> Self {
        Self(row.fragments.windows(2).map(|pair| (pair[0].area.x1, pair[1].area.x0)).collect())
    }

    fn without(&self, row: &Row) -> Vec<(f32, f32)> {
        let mut strips = self.0.clone();
        for part in &row.fragments {
            let (x0, x1) = (part.area.x0, part.area.x1);
            let rest = |(from, to): (f32, f32)| [(from, to.min(x0)), (from.max(x1), to)];
            strips = strips.into_iter().flat_map(rest).collect();
        }
        strips.retain(|(from, to)| to - from >= MIN_SEPARATOR_EMS * row.size);
        strips
    }

    fn left_by(&self, row: &Row) -> bool {
        !self.without(row).is_empty()
    }

    fn cross(&mut self, row: &Row) {
        self.0 = self.without(row);
    }

    fn is_in_first_column(&self, row: &Row) -> bool {
        self.0.first().is_some_and(|(from, _)| row.area.x0 < *from)
    }
}

fn median(values: impl Iterator<Item = f32>) -> f32 {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(10.0)
}
