//! Columns and reading order: a recursive cut of the page along its white space (XY cut).
//!
//! ```text
//! +-----------------+      a band without a gutter is read as it is;
//! |      title      |      bands that share a gutter are cut there,
//! +--------+--------+      and each side is cut again
//! |  left  | right  |
//! |        |        |
//! +--------+--------+
//! ```

use crate::page::Area;

/// Columns, bands and columns in them: real pages need four.
const MAX_DEPTH: u32 = 12;
/// A page with more bands is no page of text; looking for common gutters would take too long.
const MAX_BANDS: usize = 400;
/// Lines of a column have at least this many characters on average; cells of a table have fewer.
const MIN_COLUMN_CHARACTERS: f32 = 11.0;
const MIN_GUTTER_POINTS: f32 = 5.0;
/// Fewer paragraphs may begin at the same heights by chance.
const MIN_CELL_ROWS: usize = 3;
/// Fewer rows are no column, and columns have fewer rows in common.
const MIN_COLUMN_ROWS: usize = 8;
const MAX_SHARED_ROWS: f32 = 0.5;
/// Short cells leave white space below them, and few have more lines on average.
const MAX_CELL_DENSITY: f32 = 0.8;
const MAX_CELL_LINES: usize = 5;
/// A cell is this much further below the last line than the lines of a cell are from each other.
const MIN_CELL_SPACE_RATIO: f32 = 1.1;

/// Something with a place on the page: a fragment of text, a table or a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub area: Area,
    /// The caller's index of it.
    pub index: usize,
    /// Number of characters; `None` for what is not text.
    pub characters: Option<u32>,
    pub size: f32,
}

/// Cuts the page into regions without columns, in reading order.
pub(super) fn regions(items: Vec<Item>, is_right_to_left: bool) -> Vec<Vec<Item>> {
    let mut out = Vec::new();
    cut(items, is_right_to_left, 0, &mut out);
    out
}

fn cut(items: Vec<Item>, is_right_to_left: bool, depth: u32, out: &mut Vec<Vec<Item>>) {
    if items.len() < 2 || depth >= MAX_DEPTH {
        push(items, out);
        return;
    }
    if let Some(x) = gutter(&items) {
        let (left, right): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.area.center().0 < x);
        if left.is_empty() || right.is_empty() {
            push(if left.is_empty() { right } else { left }, out);
            return;
        }
        let (first, second) = if is_right_to_left { (right, left) } else { (left, right) };
        cut(first, is_right_to_left, depth + 1, out);
        cut(second, is_right_to_left, depth + 1, out);
        return;
    }
    let bands = bands(items);
    if bands.len() < 2 || bands.len() > MAX_BANDS {
        push(bands.into_iter().flatten().collect(), out);
        return;
    }
    let mut plain: Vec<Item> = Vec::new();
    let mut at = 0;
    while at < bands.len() {
        match run_with_gutter(&bands, at) {
            Some(Run::Columns(end)) => {
                push(std::mem::take(&mut plain), out);
                cut(bands[at..end].iter().flatten().copied().collect(), is_right_to_left, depth + 1, out);
                at = end;
            }
            Some(Run::Rows(end)) => {
                plain.extend(bands[at..end].iter().flatten());
                at = end;
            }
            None => {
                plain.extend(&bands[at]);
                at += 1;
            }
        }
    }
    push(plain, out);
}

fn push(items: Vec<Item>, out: &mut Vec<Vec<Item>>) {
    if !items.is_empty() {
        out.push(items);
    }
}

/// Groups items into bands: between two of them a horizontal line crosses nothing.
fn bands(mut items: Vec<Item>) -> Vec<Vec<Item>> {
    items.sort_by(|a, b| a.area.y0.total_cmp(&b.area.y0));
    let mut bands: Vec<Vec<Item>> = Vec::new();
    let mut bottom = f32::NEG_INFINITY;
    for item in items {
        // Lines that are set tightly overlap a little.
        let tolerance = if item.characters.is_some() { 0.25 * item.area.height() } else { 1.0 };
        match bands.last_mut() {
            Some(band) if item.area.y0 < bottom - tolerance => band.push(item),
            _ => bands.push(vec![item]),
        }
        bottom = bottom.max(item.area.y1);
    }
    bands
}

/// Bands that share a gutter, up to the given one.
enum Run {
    /// With columns of text on both sides.
    Columns(usize),
    /// With the cells of a table on both sides.
    Rows(usize),
}

/// The longest run of bands from `start` on that share a gutter.
fn run_with_gutter(bands: &[Vec<Item>], start: usize) -> Option<Run> {
    if is_end_of_paragraph(bands, start) {
        return None;
    }
    let mut items: Vec<Item> = Vec::new();
    let mut best = None;
    let mut occupied: Vec<(f32, f32)> = Vec::new();
    for (offset, band) in bands[start..].iter().enumerate() {
        items.extend(band);
        for item in band {
            occupy(&mut occupied, item.area.x0, item.area.x1);
        }
        if occupied.len() < 2 && offset > 0 {
            break;
        }
        best = Some(start + offset + 1);
    }
    let mut end = best?;
    // Without text on both sides there is nothing to cut, and the run may end in full-width parts.
    loop {
        let items: Vec<Item> = bands[start..end].iter().flatten().copied().collect();
        match gutter(&items) {
            Some(x) => {
                while end > start + 1 && starts_what_follows(bands, end, x) {
                    end -= 1;
                }
                return Some(Run::Columns(end));
            }
            None if has_rows_of_cells(&items) => return Some(Run::Rows(end)),
            None if end > start + 2 && occupied_by(&items).len() < 2 => end -= 1,
            None => return None,
        }
    }
}

fn occupied_by(items: &[Item]) -> Vec<(f32, f32)> {
    let mut occupied = Vec::new();
    for item in items {
        occupy(&mut occupied, item.area.x0, item.area.x1);
    }
    occupied
}

/// Whether the band is the short last line of a paragraph that is as wide as the page.
fn is_end_of_paragraph(bands: &[Vec<Item>], at: usize) -> bool {
    let Some(above) = at.checked_sub(1).map(|above| &bands[above]) else { return false };
    let ([line], [last]) = (bands[at].as_slice(), above.as_slice()) else { return false };
    let gap = line.area.y0 - last.area.y1;
    line.characters.is_some()
        && last.characters.is_some()
        && gap < 0.45 * line.size
        && (line.size - last.size).abs() < 0.1 * line.size
        && line.area.x0 < last.area.center().0
        && last.area.width() > 1.05 * line.area.width()
}

/// Whether the last band of a run is a heading above what follows, not the end of the left column.
fn starts_what_follows(bands: &[Vec<Item>], end: usize, gutter: f32) -> bool {
    let (Some(last), Some(above)) = (bands.get(end - 1), end.checked_sub(2).and_then(|at| bands.get(at)))
    else {
        return false;
    };
    if end >= bands.len() || !last.iter().all(|item| item.area.x1 < gutter) {
        return false;
    }
    let top = last.iter().map(|item| item.area.y0).fold(f32::INFINITY, f32::min);
    let bottom = above.iter().map(|item| item.area.y1).fold(f32::NEG_INFINITY, f32::max);
    let size = last.iter().map(|item| item.size).fold(0.0, f32::max);
    top - bottom > 0.7 * size
}

/// Adds an interval to a sorted list of separate ones.
fn occupy(occupied: &mut Vec<(f32, f32)>, from: f32, to: f32) {
    let first = occupied.partition_point(|(_, end)| *end < from);
    let last = occupied.partition_point(|(start, _)| *start <= to);
    if first >= last {
        occupied.insert(first.min(occupied.len()), (from, to));
        return;
    }
    let merged = (occupied[first].0.min(from), occupied[last - 1].1.max(to));
    occupied.splice(first..last, [merged]);
}

/// The middle of the widest gap that has a column of text on both sides.
fn gutter(items: &[Item]) -> Option<f32> {
    let gaps = gaps(items);
    gaps.iter().copied().find(|x| separates_columns(items, *x)).or_else(|| {
        // A column that is a table looks like none by its lines. The rows of two columns are at different heights.
        let independent = gaps.iter().filter_map(|x| Some((*x, shared_rows(items, *x)?)));
        independent
            .filter(|(_, share)| *share < MAX_SHARED_ROWS)
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(x, _)| x)
    })
}

/// The share of rows on one side of `x` that the other side has too, if both sides are filled with text.
fn shared_rows(items: &[Item], x: f32) -> Option<f32> {
    let (left, right): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.area.center().0 < x);
    let (left, right) = (TextRow::of(&left), TextRow::of(&right));
    let overlap = {
        let span = |rows: &[TextRow]| Some((rows.first()?.bottom, rows.last()?.bottom));
        let (left, right) = (span(&left)?, span(&right)?);
        (left.1.min(right.1) - left.0.max(right.0)) / (left.1 - left.0).min(right.1 - right.0).max(1.0)
    };
    if !TextRow::fill_a_column(&left) || !TextRow::fill_a_column(&right) || overlap < 0.5 {
        return None;
    }
    let has_partner = |row: &&TextRow, others: &[TextRow]| {
        others.iter().any(|other| (row.bottom - other.bottom).abs() < 1.5)
    };
    let (fewer, more) = if left.len() <= right.len() { (&left, &right) } else { (&right, &left) };
    let shared = fewer.iter().filter(|row| has_partner(row, more)).count();
    Some(shared as f32 / fewer.len().max(1) as f32)
}

/// All text at one height on one side of a gutter.
struct TextRow {
    bottom: f32,
    x0: f32,
    x1: f32,
    characters: u32,
}

impl TextRow {
    fn of(items: &[&Item]) -> Vec<Self> {
        let mut texts: Vec<&&Item> = items.iter().filter(|item| item.characters.is_some()).collect();
        texts.sort_by(|a, b| a.area.y1.total_cmp(&b.area.y1));
        let mut rows: Vec<Self> = Vec::new();
        for item in texts {
            let Area { x0, x1, y1: bottom, .. } = item.area;
            let characters = item.characters.unwrap_or(0);
            match rows.last_mut() {
                Some(row) if bottom - row.bottom < 1.5 => {
                    (row.x0, row.x1) = (row.x0.min(x0), row.x1.max(x1));
                    row.characters += characters;
                }
                _ => rows.push(Self { bottom, x0, x1, characters }),
            }
        }
        rows
    }

    fn fill_a_column(rows: &[Self]) -> bool {
        let x0 = rows.iter().map(|row| row.x0).fold(f32::INFINITY, f32::min);
        let x1 = rows.iter().map(|row| row.x1).fold(f32::NEG_INFINITY, f32::max);
        let count = rows.len() as f32;
        let characters = rows.iter().map(|row| row.characters).sum::<u32>() as f32;
        let width: f32 = rows.iter().map(|row| row.x1 - row.x0).sum();
        rows.len() >= MIN_COLUMN_ROWS
            && characters >= MIN_COLUMN_CHARACTERS * count
            && width >= 0.5 * (x1 - x0) * count
    }
}

/// Whether a gap has rows of cells on both sides.
fn has_rows_of_cells(items: &[Item]) -> bool {
    gaps(items).into_iter().any(|x| {
        let (left, right): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.area.center().0 < x);
        matches!((Side::of(&left), Side::of(&right)), (Some(left), Some(right)) if are_cells(&left, &right))
    })
}

/// The middles of the widest gaps.
fn gaps(items: &[Item]) -> Vec<f32> {
    let occupied = occupied_by(items);
    if occupied.len() < 2 {
        return Vec::new();
    }
    let size = median_size(items);
    let min_width = (0.7 * size).max(MIN_GUTTER_POINTS);
    let mut gaps: Vec<(f32, f32)> = occupied
        .windows(2)
        .map(|pair| (pair[0].1, pair[1].0))
        .filter(|gap| gap.1 - gap.0 >= min_width)
        .collect();
    gaps.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
    // A table has many gaps; columns have few.
    gaps.into_iter().take(6).map(|gap| (gap.0 + gap.1) / 2.0).collect()
}

fn separates_columns(items: &[Item], x: f32) -> bool {
    let (left, right): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.area.center().0 < x);
    let (Some(left), Some(right)) = (Side::of(&left), Side::of(&right)) else { return false };
    let overlap = left.area.y1.min(right.area.y1) - left.area.y0.max(right.area.y0);
    let shorter = left.area.height().min(right.area.height());
    left.is_column()
        && right.is_column()
        && overlap >= 0.3 * shorter.max(1.0)
        && !are_rows(&left, &right)
        && !are_cells(&left, &right)
}

/// Whether both sides are cells of a table with several lines each: where one side has a new cell, so has the other.
/// Columns of text have their paragraphs at different heights.
fn are_cells(left: &Side, right: &Side) -> bool {
    // A figure or a drawn table is in a column, not in a cell.
    if left.has_object || right.has_object {
        return false;
    }
    let leading = left.leading().min(right.leading());
    let is_dense = left.density(leading).min(right.density(leading)) > MAX_CELL_DENSITY;
    let lines = left.rows().min(right.rows());
    let (left, right) = (left.cell_tops(leading), right.cell_tops(leading));
    if is_dense || lines > MAX_CELL_LINES * left.len().min(right.len()) {
        return false;
    }
    let (fewer, more) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    let matched = fewer.iter().filter(|y| more.iter().any(|other| (*y - other).abs() < 2.0)).count();
    matched >= MIN_CELL_ROWS && matched * 10 >= fewer.len() * 8 && matched * 10 >= more.len() * 4
}

/// Whether short lines on both sides belong together: a form, or a table of words.
fn are_rows(left: &Side, right: &Side) -> bool {
    let is_short = |side: &Side| side.lines > 0 && side.characters < 20 * side.lines as u32;
    let has_partner = |y: &&f32, others: &[f32]| others.iter().any(|other| (*y - other).abs() < 1.5);
    let pairs = left.bottoms.iter().filter(|y| has_partner(y, &right.bottoms)).count();
    let most = left.bottoms.len().max(right.bottoms.len());
    (is_short(left) || is_short(right)) && most <= 200 && pairs * 10 >= most * 9
}

/// One side of a gutter.
struct Side {
    area: Area,
    lines: usize,
    characters: u32,
    text_width: f32,
    has_object: bool,
    /// Width of the widest column in it.
    width: f32,
    /// Lower edges of the lines.
    bottoms: Vec<f32>,
}

impl Side {
    fn of(items: &[&Item]) -> Option<Self> {
        let mut side = Self {
            area: Area::empty(),
            lines: 0,
            characters: 0,
            text_width: 0.0,
            has_object: false,
            width: 0.0,
            bottoms: Vec::new(),
        };
        let mut items: Vec<&Item> = items.to_vec();
        items.sort_by(|a, b| {
            let row = |item: &Item| (item.area.y1 / 2.0).round() as i64;
            row(a).cmp(&row(b)).then(a.area.x0.total_cmp(&b.area.x0))
        });
        let texts: Vec<Item> =
            items.iter().filter(|item| item.characters.is_some()).map(|item| **item).collect();
        // Two columns on one side are measured by the wider one; more gaps are those of a table.
        let columns = occupied_by(&texts);
        side.width = match columns.as_slice() {
            [] | [_] | [_, _] => columns.iter().map(|(from, to)| to - from).fold(0.0, f32::max),
            [first, .., last] => last.1 - first.0,
        };
        let mut last: Option<&Item> = None;
        for item in &items {
            side.area = side.area.union(&item.area);
            match item.characters {
                Some(characters) => {
                    // Justified lines have wide gaps: their parts are one line.
                    let continues = last.is_some_and(|last| {
                        let gap = item.area.x0 - last.area.x1;
                        (item.area.y1 - last.area.y1).abs() < 2.0 && (0.0..1.5 * item.size).contains(&gap)
                    });
                    last = Some(item);
                    side.lines += usize::from(!continues);
                    side.bottoms.push(item.area.y1);
                    side.characters += characters;
                    side.text_width += item.area.width();
                }
                None => side.has_object = true,
            }
        }
        (!items.is_empty()).then_some(side)
    }

    /// Distances between the lower edges of lines.
    fn distances(&self) -> impl Iterator<Item = f32> {
        self.bottoms.windows(2).map(|pair| pair[1] - pair[0]).filter(|distance| *distance > 3.0)
    }

    fn rows(&self) -> usize {
        1 + self.distances().count()
    }

    /// The part of the height that lines fill.
    fn density(&self, leading: f32) -> f32 {
        self.rows() as f32 * leading / self.area.height().max(1.0)
    }

    /// How far lines are apart that belong together.
    fn leading(&self) -> f32 {
        let mut distances: Vec<f32> = self.distances().collect();
        distances.sort_by(f32::total_cmp);
        distances.get(distances.len() / 5).copied().unwrap_or(f32::INFINITY)
    }

    /// The lower edges of lines that start a cell or a paragraph: the first, and those after a space.
    fn cell_tops(&self, leading: f32) -> Vec<f32> {
        let mut tops: Vec<f32> = self.bottoms.first().copied().into_iter().collect();
        let mut last = tops.first().copied().unwrap_or(0.0);
        for bottom in &self.bottoms {
            if bottom - last > MIN_CELL_SPACE_RATIO * leading {
                tops.push(*bottom);
            }
            last = *bottom;
        }
        tops
    }

    /// Whether the lines look like text that is set in a column: long enough, and most of them fill it.
    fn is_column(&self) -> bool {
        if self.lines == 0 {
            return self.has_object && self.area.height() > 40.0;
        }
        let lines = self.lines as f32;
        let is_long = self.characters as f32 >= MIN_COLUMN_CHARACTERS * lines;
        let is_filled = self.text_width >= 0.45 * self.width * lines;
        is_long && is_filled && (self.lines >= 3 || self.has_object || self.characters >= 40)
    }
}

fn median_size(items: &[Item]) -> f32 {
    let mut sizes: Vec<f32> =
        items.iter().filter(|item| item.characters.is_some()).map(|item| item.size).collect();
    sizes.sort_by(f32::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(index: usize, x0: f32, y: f32, x1: f32) -> Item {
        let characters = Some(((x1 - x0) / 5.0) as u32);
        Item { area: Area::new(x0, y, x1, y + 10.0), index, characters, size: 10.0 }
    }

    fn order(items: Vec<Item>) -> Vec<usize> {
        let mut regions = regions(items, false);
        for region in &mut regions {
            region.sort_by(|a, b| a.area.y0.total_cmp(&b.area.y0).then(a.area.x0.total_cmp(&b.area.x0)));
        }
        regions.into_iter().flatten().map(|item| item.index).collect()
    }

    #[test]
    fn a_title_above_two_columns_and_a_wide_part_below_are_read_in_order() {
        let mut items = vec![line(0, 50.0, 40.0, 550.0)];
        for row in 0..4 {
            items.push(line(1 + row, 50.0, 80.0 + 12.0 * row as f32, 290.0));
            items.push(line(5 + row, 310.0, 80.0 + 12.0 * row as f32, 550.0));
        }
        items.push(line(9, 50.0, 200.0, 550.0));
        assert_eq!(order(items), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn three_columns_are_read_one_after_the_other() {
        let mut items = Vec::new();
        for row in 0..5 {
            for column in 0..3 {
                let x = 50.0 + 170.0 * column as f32;
                items.push(line(column * 5 + row, x, 80.0 + 12.0 * row as f32, x + 155.0));
            }
        }
        assert_eq!(order(items), (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn cells_of_a_table_stay_in_rows() {
        let mut items = Vec::new();
        for row in 0..5 {
            for column in 0..3 {
                let x = 50.0 + 170.0 * column as f32;
                items.push(line(row * 3 + column, x, 80.0 + 12.0 * row as f32, x + 30.0));
            }
        }
        assert_eq!(order(items), (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn odd_numbers_are_survived() {
        let items = vec![
            line(0, f32::NAN, 10.0, 50.0),
            line(1, 0.0, f32::INFINITY, 50.0),
            line(2, f32::NEG_INFINITY, f32::NAN, f32::INFINITY),
        ];
        assert_eq!(order(items).len(), 3);
    }
}
