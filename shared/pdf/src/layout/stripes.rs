//! Rows of a table that differ in their shade: filled rectangles of the same width below each other.

use crate::page::Area;

/// More rectangles are a drawing.
const MAX_FILLS: usize = 3_000;
/// A row of a table is at least so high, and at most; a higher one is a box with text.
const MIN_HEIGHT_POINTS: f32 = 6.0;
const MAX_HEIGHT_POINTS: f32 = 220.0;
/// Cells of one row are at most this far apart, and their edges differ by less.
const MAX_CELL_GAP_POINTS: f32 = 3.0;
const TOLERANCE_POINTS: f32 = 1.5;
/// The row between two filled ones is at most so many times as high as the higher of them.
const MAX_GAP_RATIO: f32 = 6.0;

/// Groups of filled rows with the same left and right edges, from top to bottom.
pub(super) fn find(fills: &[Area], page: &Area) -> Vec<Vec<Area>> {
    let mut groups: Vec<Vec<Area>> = Vec::new();
    for row in filled_rows(fills, page) {
        let group = groups.iter_mut().rev().take(50).find(|group| {
            group.last().is_some_and(|above| {
                let gap = row.y0 - above.y1;
                (above.x0 - row.x0).abs() <= TOLERANCE_POINTS
                    && (above.x1 - row.x1).abs() <= TOLERANCE_POINTS
                    && (-TOLERANCE_POINTS..=MAX_GAP_RATIO * above.height().max(row.height())).contains(&gap)
            })
        });
        match group {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.retain(|group| group.len() >= 2);
    groups
}

/// Rectangles next to each other as one.
fn filled_rows(fills: &[Area], page: &Area) -> Vec<Area> {
    let is_row = |fill: &&Area| {
        (MIN_HEIGHT_POINTS..=MAX_HEIGHT_POINTS).contains(&fill.height())
            && fill.width() >= MIN_HEIGHT_POINTS
            && fill.x1.is_finite()
            && fill.size() < 0.5 * page.size()
    };
    let mut cells: Vec<Area> = fills.iter().filter(is_row).take(MAX_FILLS).copied().collect();
    let height = |y: f32| (y / TOLERANCE_POINTS).round() as i64;
    cells.sort_by(|a, b| height(a.y0).cmp(&height(b.y0)).then(a.x0.total_cmp(&b.x0)));
    let mut rows: Vec<Area> = Vec::new();
    for cell in cells {
        match rows.last_mut() {
            Some(row)
                if (row.y0 - cell.y0).abs() <= TOLERANCE_POINTS
                    && (row.y1 - cell.y1).abs() <= TOLERANCE_POINTS
                    && cell.x0 - row.x1 <= MAX_CELL_GAP_POINTS =>
            {
                *row = row.union(&cell);
            }
            _ => rows.push(cell),
        }
    }
    rows
}

/// The upper and lower edges of filled rows, as lines that are drawn between rows.
pub(super) fn edges(rows: &[Area]) -> Vec<Area> {
    let mut edges: Vec<Area> = Vec::new();
    for row in rows {
        for y in [row.y0, row.y1] {
            match edges.last() {
                Some(last) if (last.y0 - y).abs() <= TOLERANCE_POINTS => {}
                _ => edges.push(Area::new(row.x0, y, row.x1, y)),
            }
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Area {
        Area::new(0.0, 0.0, 600.0, 800.0)
    }

    fn row(y: f32) -> [Area; 3] {
        [50.0, 150.0, 250.0].map(|x| Area::new(x, y, x + 100.0, y + 20.0))
    }

    #[test]
    fn every_second_row_that_is_filled_makes_a_group() {
        let fills: Vec<Area> = [100.0, 140.0, 180.0].into_iter().flat_map(row).collect();
        let groups = find(&fills, &page());
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0][1], Area::new(50.0, 140.0, 350.0, 160.0));
        assert_eq!(edges(&groups[0]).len(), 6);
    }

    #[test]
    fn boxes_of_other_widths_or_far_apart_are_no_rows() {
        let narrow = Area::new(50.0, 140.0, 200.0, 160.0);
        let far = Area::new(50.0, 600.0, 350.0, 620.0);
        let first = Area::new(50.0, 100.0, 350.0, 120.0);
        assert!(find(&[first, narrow], &page()).is_empty());
        assert!(find(&[first, far], &page()).is_empty());
        assert!(find(&[Area::new(0.0, f32::NAN, f32::INFINITY, 9.0)], &page()).is_empty());
    }
}
