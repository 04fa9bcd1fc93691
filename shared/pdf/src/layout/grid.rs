//! Tables from a grid of rows and columns: text is put into cells by its place.

use everypage_core::document::{Cell, Table};

use super::{fragment::Fragment, letters, row, turn::Turn};
use crate::page::Area;

/// The text of a cell: its lines joined like those of a paragraph.
pub(super) fn cell_text(fragments: Vec<Fragment>) -> String {
    let mut text = String::new();
    for row in row::rows(fragments) {
        letters::join_line(&mut text, row.joined().text.trim());
    }
    text.retain(|c| c != '\u{ad}');
    text
}

/// A table in the making: fragments per cell, and what its cells span.
pub(super) struct Cells {
    pub columns: usize,
    pub cells: Vec<Vec<Fragment>>,
    /// Columns and rows that a cell spans; 0 for one that another covers.
    pub spans: Vec<(u16, u16)>,
    /// Lines between which the cells are, where they are known.
    pub areas: Vec<Option<Area>>,
    /// Rows above the first line within the table, where lines are drawn between rows.
    pub line_below_head: Option<usize>,
    /// How sure it is that this is a table with these cells, from 0 to 1.
    pub confidence: f32,
}

impl Cells {
    pub fn new(rows: usize, columns: usize) -> Self {
        let count = rows * columns;
        Self {
            columns,
            cells: vec![Vec::new(); count],
            spans: vec![(1, 1); count],
            areas: vec![None; count],
            line_below_head: None,
            confidence: 1.0,
        }
    }

    pub fn rows(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Lets cells whose text crosses the separators of columns span the empty cells there.
    pub fn span(&mut self, separators: &[f32]) {
        for at in 0..self.cells.len() {
            let right = self.cells[at].iter().map(|part| part.area.x1).fold(f32::NEG_INFINITY, f32::max);
            let column = at % self.columns;
            let crossed = separators[column..].iter().take_while(|x| right > **x + 1.0).count();
            let wide = 1 + (1..=crossed).take_while(|next| self.cells[at + next].is_empty()).count();
            if wide > 1 {
                self.spans[at].0 = wide as u16;
                self.spans[at + 1..at + wide].fill((0, 0));
            }
        }
    }

    /// Whether the rows are lines of code with their numbers: a first column that counts, next to monospaced text.
    pub fn is_listing(&self) -> bool {
        let (rows, columns) = (self.rows(), self.columns);
        let number = |row: usize| match self.cells[row * columns].as_slice() {
            [part] => part.text.parse::<u32>().ok(),
            _ => None,
        };
        let numbers: Vec<u32> = (0..rows).filter_map(number).collect();
        let is_count = numbers.len() >= 2 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if columns < 2 || rows == 0 || !is_count || numbers.len() * 10 < rows * 7 || number(0).is_none() {
            return false;
        }
        let code = || (0..rows).flat_map(|row| &self.cells[row * columns + 1..(row + 1) * columns]).flatten();
        let glyphs: u32 = code().map(|part| part.glyphs).sum();
        let mono: u32 = code().map(|part| part.mono).sum();
        mono * 10 >= glyphs.max(1) * 8
    }

    /// Makes the table, without rows and columns that are empty throughout.
    pub fn finish(self, turn: &Turn) -> Table {
        let (rows, columns) = (self.rows(), self.columns);
        let is_filled = |row: usize, column: usize| !self.cells[row * columns + column].is_empty();
        let keeps_row: Vec<bool> =
            (0..rows).map(|row| (0..columns).any(|column| is_filled(row, column))).collect();
        let keeps_column: Vec<bool> =
            (0..columns).map(|column| (0..rows).any(|row| is_filled(row, column))).collect();
        let header_rows = super::header::rows(&self) as u16;
        let mut table = Table { header_rows, ..Table::default() };
        let mut cells = self.cells.into_iter();
        for row in 0..rows {
            let mut out = Vec::with_capacity(columns);
            for column in 0..columns {
                let at = row * columns + column;
                let fragments = cells.next().unwrap_or_default();
                if !keeps_row[row] || !keeps_column[column] {
                    continue;
                }
                let area = self.areas[at].or_else(|| {
                    let area =
                        fragments.iter().fold(Area::empty(), |all, fragment| all.union(&fragment.area));
                    area.is_valid().then_some(area)
                });
                let (wide, high) = self.spans[at];
                let kept = |keeps: &[bool], from: usize, count: u16| {
                    keeps[from..(from + usize::from(count.max(1))).min(keeps.len())]
                        .iter()
                        .filter(|keeps| **keeps)
                        .count()
                };
                out.push(Cell {
                    text: cell_text(fragments),
                    area: area.map(|area| super::page_box(&turn.original(&area))),
                    columns: kept(&keeps_column, column, wide).max(1) as u16,
                    rows: kept(&keeps_row, row, high).max(1) as u16,
                });
            }
            if keeps_row[row] {
                table.rows.push(out);
            }
        }
        table
    }
}
