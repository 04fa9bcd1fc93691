//! Records: which lines of a table start a row of it, and which only continue the cells above.

use super::{fragment::Fragment, letters, row::Row};

/// The parts of one line of text, by column.
pub(super) type LineCells = Vec<Vec<Fragment>>;

/// A row of the table is this much further from the one above than lines of a cell are from each other.
const MIN_SPACING_RATIO: f32 = 1.12;
/// Lines of one cell are at most this many ems apart.
const MAX_LEADING_EMS: f32 = 1.75;
/// Fewer rows show no pattern.
const MIN_RECORDS: usize = 3;
/// Of the lines within rows, at least so many leave a column empty, and so many continue where the line above is full.
const MIN_PARTIAL_PERCENT: usize = 35;
const MIN_WRAPPED_PERCENT: usize = 60;

/// Which lines continue the one above.
pub(super) struct Records {
    pub continues: Vec<bool>,
    /// Lines or spaces between the rows show where each of them starts.
    pub are_apart: bool,
}

/// Finds the rows of a table. `lines` are the heights of lines that are drawn between them.
pub(super) fn find(grid: &[LineCells], rows: &[Row], lines: &[f32], size: f32) -> Records {
    let widths = widths(grid);
    let drawn = starts_by_lines(rows, lines);
    let spaced = starts_by_spaces(rows, size);
    for starts in [drawn, spaced].into_iter().flatten() {
        if are_wrapped(grid, &starts, &widths) {
            return Records { continues: starts.into_iter().map(|start| !start).collect(), are_apart: true };
        }
    }
    Records { continues: one_by_one(grid, rows, lines, &widths, size), are_apart: false }
}

/// Joins lines that continue the one above.
pub(super) fn joined(grid: Vec<LineCells>, continues: &[bool]) -> Vec<LineCells> {
    let mut joined: Vec<LineCells> = Vec::with_capacity(grid.len());
    for (line, continues) in grid.into_iter().zip(continues) {
        match joined.last_mut() {
            Some(above) if *continues => {
                for (cell, more) in above.iter_mut().zip(line) {
                    cell.extend(more);
                }
            }
            _ => joined.push(line),
        }
    }
    joined
}

/// The width of the longest line of each column.
fn widths(grid: &[LineCells]) -> Vec<f32> {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |column: usize| grid.iter().map(|line| extent(&line[column])).fold(0.0, f32::max);
    (0..columns).map(width).collect()
}

fn extent(cell: &[Fragment]) -> f32 {
    match (cell.first(), cell.last()) {
        (Some(first), Some(last)) => last.area.x1 - first.area.x0,
        _ => 0.0,
    }
}

fn is_line_between(above: &Row, below: &Row, lines: &[f32]) -> bool {
    let (from, to) = (above.baseline - 0.3 * above.size, below.baseline - 0.3 * below.size);
    lines.iter().any(|y| (from..to).contains(y))
}

fn starts_by_lines(rows: &[Row], lines: &[f32]) -> Option<Vec<bool>> {
    let drawn = rows.windows(2).map(|pair| is_line_between(&pair[0], &pair[1], lines));
    let starts: Vec<bool> = std::iter::once(true).chain(drawn).collect();
    (starts.iter().filter(|start| **start).count() >= MIN_RECORDS).then_some(starts)
}

/// Rows of the table, where they are further apart than the lines of their cells.
fn starts_by_spaces(rows: &[Row], size: f32) -> Option<Vec<bool>> {
    let distances: Vec<f32> = rows.windows(2).map(|pair| pair[1].baseline - pair[0].baseline).collect();
    let mut sorted = distances.clone();
    sorted.sort_by(f32::total_cmp);
    let jump = |pair: &[f32]| pair[1] / pair[0].max(0.1);
    let (at, ratio) = sorted
        .windows(2)
        .map(jump)
        .enumerate()
        .filter(|(at, _)| sorted[*at] <= MAX_LEADING_EMS * size)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if ratio < MIN_SPACING_RATIO {
        return None;
    }
    let limit = f32::midpoint(sorted[at], sorted[at + 1]);
    let starts: Vec<bool> =
        std::iter::once(true).chain(distances.iter().map(|distance| *distance > limit)).collect();
    (starts.iter().filter(|start| **start).count() >= MIN_RECORDS).then_some(starts)
}

/// Whether the lines between the starts look like the rest of cells: they leave columns empty, and continue where the
/// line above has no room for their first word.
fn are_wrapped(grid: &[LineCells], starts: &[bool], widths: &[f32]) -> bool {
    let (mut inner, mut partial, mut wrapped) = (0, 0, 0);
    let mut above: Vec<&[Fragment]> = Vec::new();
    for (line, start) in grid.iter().zip(starts) {
        if *start {
            above = vec![&[]; line.len()];
        } else {
            inner += 1;
            partial += usize::from(line.iter().any(Vec::is_empty));
            let known =
                || (0..line.len()).filter(|column| !line[*column].is_empty() && !above[*column].is_empty());
            let wrapping = known().filter(|column| wraps(above[*column], &line[*column], widths[*column]));
            wrapped += usize::from(wrapping.count() * 10 >= known().count() * 6);
        }
        for (cell, above) in line.iter().zip(&mut above) {
            if !cell.is_empty() {
                *above = cell;
            }
        }
    }
    inner > 0 && partial * 100 >= inner * MIN_PARTIAL_PERCENT && wrapped * 100 >= inner * MIN_WRAPPED_PERCENT
}

/// Whether the first word of `cell` had no room in the line above, so that it may continue it.
fn wraps(above: &[Fragment], cell: &[Fragment], width: f32) -> bool {
    let Some(first) = cell.first() else { return false };
    if starts_low(cell) {
        return true;
    }
    let are_numbers = above.iter().chain(cell).all(|part| is_number(&part.text));
    !are_numbers && width - extent(above) < first.first_word() + 0.3 * first.size
}

fn starts_low(cell: &[Fragment]) -> bool {
    cell.first().is_some_and(|first| {
        first.text.starts_with(|c: char| c.is_lowercase() || letters::is_spaceless(c) || c == '(')
    })
}

/// Whether the text is a number, with its sign, unit of money or percent.
pub(super) fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || " .,+-–−±%()$€£*×/:".contains(c))
}

/// Without a pattern, each line is compared with the one above.
fn one_by_one(grid: &[LineCells], rows: &[Row], lines: &[f32], widths: &[f32], size: f32) -> Vec<bool> {
    let mut continues = Vec::with_capacity(grid.len());
    // What the row of the table has so far: the last line of each cell.
    let mut above: Vec<&[Fragment]> = Vec::new();
    for (index, line) in grid.iter().enumerate() {
        let filled: Vec<usize> = (0..line.len()).filter(|column| !line[*column].is_empty()).collect();
        let is_near = index.checked_sub(1).is_some_and(|last| {
            rows[index].baseline - rows[last].baseline <= 1.45 * size
                && !is_line_between(&rows[last], &rows[index], lines)
        });
        let goes_on = is_near && {
            let has_above = filled.iter().all(|column| !above[*column].is_empty());
            let is_partial = !filled.contains(&0) && filled.len() * 2 <= line.len().max(3);
            let is_low = filled.iter().all(|column| starts_low(&line[*column]));
            let is_wrapped = filled.len() < line.len()
                && filled.iter().all(|column| wraps(above[*column], &line[*column], widths[*column]))
                && filled
                    .iter()
                    .any(|column| above[*column].iter().map(|part| part.words.len()).sum::<usize>() >= 2);
            has_above && (is_partial || is_wrapped || (is_low && filled.len() * 2 <= line.len()))
        };
        if !goes_on {
            above = vec![&[]; line.len()];
        }
        for (cell, above) in line.iter().zip(&mut above) {
            if !cell.is_empty() {
                *above = cell;
            }
        }
        continues.push(goes_on);
    }
    continues
}
