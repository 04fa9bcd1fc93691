//! Tables that are drawn with lines: the lines' grid is the table's.

use super::{
    aligned,
    fragment::Fragment,
    grid::Cells,
    row::{self, Row},
};
use crate::page::Area;

/// More rules than a page of tables has: a drawing.
const MAX_RULES: usize = 3_000;
/// Lines this close are one line, and lines this close to each other's ends meet.
const TOLERANCE_POINTS: f32 = 3.0;
/// More cells are a drawing on graph paper.
const MAX_CELLS: usize = 8_000;
/// A cell with more text is a part of the page in a frame, not a cell.
const MAX_CELL_CHARACTERS: usize = 1_200;

/// So many filled cells are a form, if most others are empty.
const MIN_FORM_CELLS: usize = 6;

/// Why a grid is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoGrid {
    /// Labels in a grid of empty cells: what belongs to which field is lost.
    pub is_form: bool,
}

/// A grid of lines that meet.
#[derive(Debug)]
pub(super) struct RuledGrid {
    pub area: Area,
    xs: Vec<f32>,
    ys: Vec<f32>,
    upright: Vec<Area>,
    level: Vec<Area>,
    /// Edges that are not drawn: columns and rows that only their alignment shows.
    implied_xs: Vec<f32>,
    implied_ys: Vec<f32>,
}

/// Finds grids with at least two columns.
pub(super) fn grids(rules: &[Area], fills: &[Area], page: &Area) -> Vec<RuledGrid> {
    let mut lines: Vec<Area> = rules.iter().filter(|rule| rule.longer() >= 5.0).copied().collect();
    let drawn = lines.clone();
    for fill in fills {
        // Filled cells show the grid by their edges.
        if fill.shorter() >= 6.0 && fill.size() < 0.5 * page.size() {
            let Area { x0, y0, x1, y1 } = *fill;
            lines.push(Area::new(x0, y0, x1, y0));
            lines.push(Area::new(x0, y1, x1, y1));
            lines.push(Area::new(x0, y0, x0, y1));
            lines.push(Area::new(x1, y0, x1, y1));
        }
    }
    lines.retain(|line| [line.x0, line.y0, line.x1, line.y1].iter().all(|value| value.is_finite()));
    if lines.len() < 4 || lines.len() > MAX_RULES {
        return Vec::new();
    }
    let has_line = |area: &Area| drawn.iter().any(|line| line.intersect(area).is_valid());
    components(lines)
        .into_iter()
        .filter_map(|lines| RuledGrid::new(&lines))
        // One row of filled cells is a part of a table: a head, or every second row.
        .filter(|grid| grid.ys.len() > 2 || has_line(&grid.area.grown(TOLERANCE_POINTS)))
        .collect()
}

/// Groups lines that meet.
fn components(mut lines: Vec<Area>) -> Vec<Vec<Area>> {
    lines.sort_by(|a, b| a.y0.total_cmp(&b.y0));
    let mut parents: Vec<usize> = (0..lines.len()).collect();
    fn root(parents: &mut [usize], mut at: usize) -> usize {
        while parents[at] != at {
            parents[at] = parents[parents[at]];
            at = parents[at];
        }
        at
    }
    for (index, line) in lines.iter().enumerate() {
        let grown = line.grown(TOLERANCE_POINTS);
        for (other_index, other) in lines.iter().enumerate().skip(index + 1) {
            if other.y0 > grown.y1 {
                break;
            }
            if grown.intersect(other).is_valid() {
                let (a, b) = (root(&mut parents, index), root(&mut parents, other_index));
                parents[a] = b;
            }
        }
    }
    let mut groups: Vec<Vec<Area>> = vec![Vec::new(); lines.len()];
    for (index, line) in lines.iter().enumerate() {
        let group = root(&mut parents, index);
        groups[group].push(*line);
    }
    groups.retain(|group| group.len() >= 3);
    groups
}

impl RuledGrid {
    fn new(lines: &[Area]) -> Option<Self> {
        let (level, upright): (Vec<Area>, Vec<Area>) =
            lines.iter().copied().partition(|line| line.width() >= line.height());
        let mut xs: Vec<f32> = upright.iter().map(|line| line.center().0).collect();
        let mut ys: Vec<f32> = level.iter().map(|line| line.center().1).collect();
        let area = lines.iter().fold(Area::empty(), |all, line| all.union(line));
        // Tables that are open at the sides end where their lines end.
        if !level.is_empty() {
            xs.extend([area.x0, area.x1]);
        }
        if !upright.is_empty() {
            ys.extend([area.y0, area.y1]);
        }
        let (xs, ys) = (distinct(xs), distinct(ys));
        let cells = xs.len().saturating_sub(1) * ys.len().saturating_sub(1);
        let has_size = area.width() > 40.0 && area.height() > 12.0;
        (xs.len() >= 3 && ys.len() >= 2 && (2..=MAX_CELLS).contains(&cells) && has_size && upright.len() >= 2)
            .then_some(Self { area, xs, ys, upright, level, implied_xs: Vec::new(), implied_ys: Vec::new() })
    }

    /// Whether the fragment is in the grid.
    pub fn holds(&self, fragment: &Fragment) -> bool {
        let (x, y) = fragment.area.center();
        self.area.grown(1.0).contains(x, y)
    }

    /// Puts the fragments into cells, if the grid is a table.
    pub fn table(&mut self, fragments: &[Fragment]) -> Result<Cells, NoGrid> {
        self.add_implied_edges(fragments);
        let (columns, rows) = (self.xs.len() - 1, self.ys.len() - 1);
        let mut cells = Cells::new(rows, columns);
        let owners = self.spans(&mut cells);
        for fragment in fragments {
            for part in self.split(fragment) {
                let (x, y) = part.area.center();
                let (column, row) = (slot(&self.xs, x), slot(&self.ys, y));
                cells.cells[owners[row * columns + column]].push(part);
            }
        }
        let filled: Vec<&Vec<Fragment>> = cells.cells.iter().filter(|cell| !cell.is_empty()).collect();
        let longest = filled
            .iter()
            .map(|cell| cell.iter().map(|fragment| fragment.text.len()).sum::<usize>())
            .max()
            .unwrap_or(0);
        let used_columns = (0..columns)
            .filter(|column| (0..rows).any(|row| !cells.cells[row * columns + column].is_empty()))
            .count();
        let is_regular = used_columns >= 2 && longest <= MAX_CELL_CHARACTERS;
        let is_sparse = filled.len() * 5 < cells.spans.iter().filter(|span| span.0 > 0).count();
        let is_form = is_regular && is_sparse && filled.len() >= MIN_FORM_CELLS;
        let is_table = is_regular && !is_sparse && filled.len() >= 3;
        if is_table { Ok(cells) } else { Err(NoGrid { is_form }) }
    }

    /// Finds rows and columns between the lines: many tables have lines around groups of rows or columns only.
    fn add_implied_edges(&mut self, fragments: &[Fragment]) {
        let parts: Vec<Fragment> = fragments.iter().flat_map(|fragment| self.split(fragment)).collect();
        for edges in self.ys.windows(2) {
            let band = parts.iter().filter(|part| (edges[0]..edges[1]).contains(&part.area.center().1));
            let rows = row::rows(band.cloned().collect());
            if self.are_records(&rows) {
                let between = |pair: &[Row]| (pair[0].area.y1 + pair[1].area.y0) / 2.0;
                self.implied_ys.extend(rows.windows(2).map(between));
            }
        }
        for edges in self.xs.windows(2) {
            let column = parts.iter().filter(|part| (edges[0]..edges[1]).contains(&part.area.center().0));
            let rows = row::rows(column.cloned().collect());
            if rows.len() >= 4 {
                self.implied_xs.extend(aligned::inner_separators(&rows));
            }
        }
        if (self.xs.len() + self.implied_xs.len()) * (self.ys.len() + self.implied_ys.len()) > MAX_CELLS {
            (self.implied_xs, self.implied_ys) = (Vec::new(), Vec::new());
        }
        self.xs.extend(&self.implied_xs);
        self.ys.extend(&self.implied_ys);
        self.xs.sort_by(f32::total_cmp);
        self.ys.sort_by(f32::total_cmp);
    }

    /// Whether the rows between two lines are rows of the table, not lines of its cells: most columns have a short
    /// text in each of them.
    fn are_records(&self, rows: &[Row]) -> bool {
        if rows.len() < 2 {
            return false;
        }
        let columns = self.xs.len() - 1;
        let mut filled = vec![0_usize; columns];
        let (mut characters, mut parts, mut numbers, mut lowercase) = (0, 0, 0, 0);
        for row in rows {
            let mut seen = vec![false; columns];
            for part in &row.fragments {
                seen[slot(&self.xs, part.area.center().0)] = true;
                characters += part.text.chars().count();
                parts += 1;
                numbers += usize::from(part.text.chars().any(|c| c.is_ascii_digit()));
                lowercase += usize::from(part.text.starts_with(char::is_lowercase));
            }
            for (count, seen) in filled.iter_mut().zip(seen) {
                *count += usize::from(seen);
            }
        }
        let used: Vec<usize> = filled.into_iter().filter(|count| *count > 0).collect();
        let is_full = |count: &usize| *count * 10 >= rows.len() * 8;
        let full = used.iter().filter(|count| is_full(count)).count();
        let has_key = used.first().is_some_and(is_full);
        let is_short = characters <= 14 * parts || (numbers * 2 >= parts && characters <= 30 * parts);
        // Two lines in each cell are rather heads than two rows, unless they are numbers.
        let is_enough = rows.len() >= 3 || (full >= 3 && numbers * 10 >= parts * 7);
        used.len() >= 2
            && full >= 2
            && full * 2 >= used.len()
            && has_key
            && is_short
            && is_enough
            && lowercase * 4 <= parts
    }

    /// Splits a fragment that crosses lines of the grid.
    fn split(&self, fragment: &Fragment) -> Vec<Fragment> {
        let mut parts = Vec::new();
        let mut rest = Some(fragment.clone());
        let y = fragment.area.center().1;
        for x in &self.xs {
            let Some(current) = rest.take() else { break };
            let is_crossed = *x > current.area.x0 + 1.0 && *x < current.area.x1 - 1.0;
            let is_implied = self.implied_xs.contains(x);
            if is_crossed && (if is_implied { aligned::is_gap(&current, *x) } else { self.has_wall(*x, y) }) {
                let (left, right) = current.split_at(*x);
                parts.extend(left);
                rest = right;
            } else {
                rest = Some(current);
            }
        }
        parts.extend(rest);
        parts
    }

    fn has_wall(&self, x: f32, y: f32) -> bool {
        let at = |line: &Area| {
            (line.center().0 - x).abs() <= TOLERANCE_POINTS && line.y0 - 1.0 <= y && y <= line.y1 + 1.0
        };
        self.implied_xs.contains(&x) || self.upright.iter().any(at)
    }

    fn has_floor(&self, x: f32, y: f32) -> bool {
        let at = |line: &Area| {
            (line.center().1 - y).abs() <= TOLERANCE_POINTS && line.x0 - 1.0 <= x && x <= line.x1 + 1.0
        };
        self.implied_ys.contains(&y) || self.level.iter().any(at)
    }

    /// Merges cells without a line between them. Returns the cell that holds each cell's text.
    fn spans(&self, cells: &mut Cells) -> Vec<usize> {
        let (columns, rows) = (self.xs.len() - 1, self.ys.len() - 1);
        let middle = |at: &[f32], index: usize| (at[index] + at[index + 1]) / 2.0;
        let mut owners = vec![usize::MAX; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                if owners[row * columns + column] != usize::MAX {
                    continue;
                }
                let (x, y) = (middle(&self.xs, column), middle(&self.ys, row));
                let mut wide = 1;
                while column + wide < columns
                    && owners[row * columns + column + wide] == usize::MAX
                    && !self.has_wall(self.xs[column + wide], y)
                {
                    wide += 1;
                }
                let mut high = 1;
                while row + high < rows
                    && !self.has_floor(x, self.ys[row + high])
                    && (column..column + wide)
                        .all(|column| owners[(row + high) * columns + column] == usize::MAX)
                {
                    high += 1;
                }
                let owner = row * columns + column;
                for covered_row in row..row + high {
                    for covered_column in column..column + wide {
                        owners[covered_row * columns + covered_column] = owner;
                        cells.spans[covered_row * columns + covered_column] = (0, 0);
                    }
                }
                cells.spans[owner] = (wide as u16, high as u16);
                cells.areas[owner] = Some(Area::new(
                    self.xs[column],
                    self.ys[row],
                    self.xs[column + wide],
                    self.ys[row + high],
                ));
            }
        }
        owners
    }
}

/// Sorted values, those that are close as one.
fn distinct(mut values: Vec<f32>) -> Vec<f32> {
    values.sort_by(f32::total_cmp);
    values.dedup_by(|next, last| *next - *last <= TOLERANCE_POINTS);
    values
}

fn slot(edges: &[f32], at: f32) -> usize {
    edges.partition_point(|edge| *edge <= at).saturating_sub(1).min(edges.len().saturating_sub(2))
}
