//! A page divided into cells, to measure how much is covered and which areas are connected.

use super::geometry::Area;

/// Cells per side: on A4 a cell is 9 by 13 points, about one line of text.
const CELLS: usize = 64;

pub(crate) struct Grid {
    page: Area,
    cells: Vec<bool>,
}

impl Grid {
    pub fn new(page: Area) -> Self {
        Self { page, cells: vec![false; CELLS * CELLS] }
    }

    /// Marks the cells whose center lies in `area`: for measuring coverage.
    pub fn cover(&mut self, area: &Area) {
        self.mark(area, 0.5);
    }

    /// Marks every cell that `area` touches, however small: for finding connected areas.
    pub fn touch(&mut self, area: &Area) {
        self.mark(area, 0.0);
    }

    fn mark(&mut self, area: &Area, inset: f32) {
        let (columns, rows) = (self.columns(area, inset), self.rows(area, inset));
        for row in rows {
            for column in columns.clone() {
                self.cells[row * CELLS + column] = true;
            }
        }
    }

    /// The covered share of the page, 0 to 1.
    pub fn share(&self) -> f32 {
        self.cells.iter().filter(|&&covered| covered).count() as f32 / self.cells.len() as f32
    }

    /// Numbers the groups of connected cells; [`Groups::label`] then returns an area's group.
    pub fn groups(self) -> Groups {
        let mut labels = vec![0_u32; self.cells.len()];
        let mut count = 0;
        let mut open = Vec::new();
        for start in 0..self.cells.len() {
            if !self.cells[start] || labels[start] != 0 {
                continue;
            }
            count += 1;
            labels[start] = count;
            open.push(start);
            while let Some(cell) = open.pop() {
                let (row, column) = (cell / CELLS, cell % CELLS);
                for near_row in row.saturating_sub(1)..=(row + 1).min(CELLS - 1) {
                    for near_column in column.saturating_sub(1)..=(column + 1).min(CELLS - 1) {
                        let near = near_row * CELLS + near_column;
                        if self.cells[near] && labels[near] == 0 {
                            labels[near] = count;
                            open.push(near);
                        }
                    }
                }
            }
        }
        Groups { grid: self, labels, count: count as usize }
    }

    fn columns(&self, area: &Area, inset: f32) -> std::ops::Range<usize> {
        cells(area.x0 - self.page.x0, area.x1 - self.page.x0, self.page.width(), inset)
    }

    fn rows(&self, area: &Area, inset: f32) -> std::ops::Range<usize> {
        cells(area.y0 - self.page.y0, area.y1 - self.page.y0, self.page.height(), inset)
    }
}

fn cells(from: f32, to: f32, length: f32, inset: f32) -> std::ops::Range<usize> {
    let cell = (length / CELLS as f32).max(f32::EPSILON);
    // Casts from float saturate, so coordinates far off the page become its edge.
    let first = (from / cell + inset).floor().max(0.0) as usize;
    let last = if inset > 0.0 { (to / cell + inset).floor() } else { (to / cell).floor() + 1.0 };
    first.min(CELLS)..(last.max(0.0) as usize).min(CELLS)
}

pub(crate) struct Groups {
    grid: Grid,
    labels: Vec<u32>,
    pub count: usize,
}

impl Groups {
    /// The group of an area that was `touch`ed; `None` if it lies off the page.
    pub fn label(&self, area: &Area) -> Option<usize> {
        let row = self.grid.rows(area, 0.0).next()?;
        let column = self.grid.columns(area, 0.0).next()?;
        (self.labels[row * CELLS + column] as usize).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_adds_up_and_overlaps_count_once() {
        let mut grid = Grid::new(Area::new(0.0, 0.0, 640.0, 640.0));
        grid.cover(&Area::new(0.0, 0.0, 640.0, 320.0));
        assert_eq!(grid.share(), 0.5);
        grid.cover(&Area::new(0.0, 160.0, 640.0, 320.0));
        assert_eq!(grid.share(), 0.5);
        grid.cover(&Area::new(-1e9, 320.0, 1e9, f32::INFINITY));
        assert_eq!(grid.share(), 1.0);
    }

    #[test]
    fn adjacent_areas_are_one_group_and_distant_ones_are_two() {
        let mut grid = Grid::new(Area::new(0.0, 0.0, 640.0, 640.0));
        let (a, b, far) = (
            Area::new(10.0, 10.0, 18.0, 18.0),
            Area::new(20.0, 20.0, 28.0, 28.0),
            Area::new(300.0, 300.0, 301.0, 301.0),
        );
        for area in [&a, &b, &far] {
            grid.touch(area);
        }
        let groups = grid.groups();
        assert_eq!(groups.count, 2);
        assert_eq!(groups.label(&a), groups.label(&b));
        assert_ne!(groups.label(&a), groups.label(&far));
        assert_eq!(groups.label(&Area::new(900.0, 0.0, 910.0, 9.0)), None);
    }
}
