//! Finds the tables of a page and takes their text out of it.

use everypage_core::document::Table;

use super::{
    aligned::{self, Evidence},
    content::{PageContent, TagRole},
    fragment::Fragment,
    grid::Cells,
    roles,
    row::{self, Row},
    ruled, stripes,
    turn::Turn,
};
use crate::page::Area;

/// A rule that delimits a table is at least this long.
const MIN_TABLE_RULE_POINTS: f32 = 70.0;

/// A table and its place on the upright page.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub area: Area,
    pub table: Table,
    /// How sure it is that its cells are right, from 0 to 1: that of lines and tags is 1.
    pub confidence: f32,
}

/// What looks like a table or a form and could not be rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Broken {
    pub tables: u32,
    pub forms: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub found: Vec<Found>,
    pub broken: Broken,
    /// Numbers of lines of code in a frame.
    pub line_numbers: Vec<Fragment>,
}

/// Takes tables with lines or tags out of the fragments; what is only aligned is found per column, later.
pub(super) fn take(fragments: &mut Vec<Fragment>, content: &PageContent, turn: &Turn) -> Taken {
    let (mut found, mut broken, mut line_numbers) = (Vec::new(), Broken::default(), Vec::new());
    let mut grids = ruled::grids(&content.rules, &content.fills, &content.page);
    // A frame around others is looked at after them.
    grids.sort_by(|a, b| a.area.size().total_cmp(&b.area.size()));
    for mut grid in grids {
        let (inside, outside): (Vec<Fragment>, Vec<Fragment>) =
            fragments.drain(..).partition(|fragment| grid.holds(fragment));
        let covers_other =
            found.iter().any(|other: &Found| grid.area.grown(2.0).contains(other.area.x0, other.area.y0));
        *fragments = outside;
        let is_drawn = content.clusters.iter().any(|cluster| {
            let shared = cluster.stroke_area.intersect(&grid.area);
            cluster.strokes >= 8 && shared.is_valid() && shared.size() > 0.4 * grid.area.size()
        });
        let is_named_figure = fragments.iter().any(|line| is_caption_of_figure(line, &grid.area));
        let is_other = covers_other || is_drawn || is_named_figure;
        if let Some(right) = end_of_line_numbers(&inside) {
            let (numbers, code): (Vec<Fragment>, Vec<Fragment>) =
                inside.into_iter().partition(|fragment| fragment.area.x1 <= right);
            line_numbers.extend(numbers);
            fragments.extend(code);
            continue;
        }
        match grid.table(&inside) {
            Ok(cells) if !is_other => {
                found.push(Found { area: grid.area, table: cells.finish(turn), confidence: 1.0 });
            }
            refused => {
                broken.forms += u32::from(!is_other && refused.is_err_and(|refused| refused.is_form));
                fragments.extend(inside);
            }
        }
    }
    take_tagged(fragments, turn, &mut found);
    take_striped(fragments, content, turn, &mut found, &mut broken);
    take_between_rules(fragments, content, turn, &mut found, &mut broken);
    Taken { found, broken, line_numbers }
}

/// Where the numbers of lines of code end, if that is what the fragments are: rows that count, next to monospaced text.
fn end_of_line_numbers(fragments: &[Fragment]) -> Option<f32> {
    let rows = row::rows(fragments.to_vec());
    let number = |row: &Row| row.fragments.first()?.text.parse::<u32>().ok();
    let counted: Vec<(&Row, u32)> = rows.iter().filter_map(|row| Some((row, number(row)?))).collect();
    let is_count = counted.len() >= 2 && counted.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1);
    if !is_count || counted.len() * 10 < rows.len() * 7 || number(rows.first()?).is_none() {
        return None;
    }
    let right =
        counted.iter().map(|(row, _)| row.fragments[0].area.x1).fold(f32::NEG_INFINITY, f32::max) + 0.5;
    let code = || fragments.iter().filter(|fragment| fragment.area.x1 > right);
    let (glyphs, mono) = code().fold((0, 0), |(glyphs, mono), part| (glyphs + part.glyphs, mono + part.mono));
    let is_apart = code().all(|part| part.area.x0 > right - 1.0);
    (is_apart && glyphs > 0 && mono * 10 >= glyphs * 8).then_some(right)
}

/// Whether the line directly below names the grid as a figure.
fn is_caption_of_figure(line: &Fragment, grid: &Area) -> bool {
    let distance = line.area.y0 - grid.y1;
    (-2.0..36.0).contains(&distance)
        && line.area.x0 < grid.x1
        && line.area.x1 > grid.x0
        && roles::names_figure(&line.text)
}

/// Tables by the tags of their cells.
fn take_tagged(fragments: &mut Vec<Fragment>, turn: &Turn, found: &mut Vec<Found>) {
    let table_of = |fragment: &Fragment| match fragment.tag?.role {
        TagRole::Cell { table, .. } => Some(table),
        _ => None,
    };
    let mut tables: Vec<u32> = fragments.iter().filter_map(table_of).collect();
    tables.sort_unstable();
    tables.dedup();
    for table in tables.into_iter().take(64) {
        let (inside, outside): (Vec<Fragment>, Vec<Fragment>) =
            fragments.drain(..).partition(|fragment| table_of(fragment) == Some(table));
        *fragments = outside;
        let area = inside.iter().fold(Area::empty(), |all, fragment| all.union(&fragment.area));
        match tagged(&inside) {
            Some(cells) => found.push(Found { area, table: cells.finish(turn), confidence: 1.0 }),
            None => fragments.extend(inside),
        }
    }
}

/// One row of a tagged table: its cells with their places, from left to right.
struct TaggedRow {
    row: u32,
    top: f32,
    cells: Vec<(u32, Area, Vec<Fragment>)>,
}

fn tagged(fragments: &[Fragment]) -> Option<Cells> {
    let mut rows: Vec<TaggedRow> = Vec::new();
    for fragment in fragments {
        let tag = fragment.tag?;
        let TagRole::Cell { row, .. } = tag.role else { return None };
        let at = match rows.iter().position(|other| other.row == row) {
            Some(at) => at,
            None if rows.len() < 1_000 => {
                rows.push(TaggedRow { row, top: f32::INFINITY, cells: Vec::new() });
                rows.len() - 1
            }
            None => return None,
        };
        let line = &mut rows[at];
        line.top = line.top.min(fragment.area.y0);
        match line.cells.iter_mut().find(|cell| cell.0 == tag.element) {
            Some(cell) => {
                cell.1 = cell.1.union(&fragment.area);
                cell.2.push(fragment.clone());
            }
            None => line.cells.push((tag.element, fragment.area, vec![fragment.clone()])),
        }
    }
    for line in &mut rows {
        line.cells.sort_by(|a, b| a.1.x0.total_cmp(&b.1.x0));
    }
    rows.sort_by(|a, b| a.top.total_cmp(&b.top));
    let columns = rows.iter().map(|line| line.cells.len()).max()?;
    let longest = rows
        .iter()
        .flat_map(|line| &line.cells)
        .map(|cell| cell.2.iter().map(|part| part.text.len()).sum::<usize>())
        .max()?;
    if columns < 2 || rows.len() < 2 || longest > 1_200 {
        return None;
    }
    // Rows with all cells show where the columns are; cells of the others go to the nearest.
    let mut places = vec![Area::empty(); columns];
    for line in rows.iter().filter(|line| line.cells.len() == columns) {
        for (place, cell) in places.iter_mut().zip(&line.cells) {
            *place = place.union(&cell.1);
        }
    }
    let mut cells = Cells::new(rows.len(), columns);
    for (at, line) in rows.into_iter().enumerate() {
        let is_full = line.cells.len() == columns;
        let mut next = 0;
        let mut left = line.cells.len();
        for (index, (_, area, parts)) in line.cells.into_iter().enumerate() {
            let column = if is_full { index } else { nearest(&places, &area, next, columns - left) };
            left -= 1;
            // A cell over several columns leaves out those that its text covers.
            let is_covered = |other: &usize| area.x0 < places[*other].x0 && places[*other].x1 < area.x1 + 1.0;
            let wide = 1 + (column + 1..columns - left).take_while(is_covered).count();
            if wide > 1 && !is_full {
                let from = at * columns + column;
                cells.spans[from].0 = wide as u16;
                cells.spans[from + 1..from + wide].fill((0, 0));
            }
            next = column + if is_full { 1 } else { wide };
            cells.cells[at * columns + column].extend(parts);
        }
    }
    Some(cells)
}

/// The column from `first` to `last` whose place is nearest to the cell's.
fn nearest(places: &[Area], cell: &Area, first: usize, last: usize) -> usize {
    let distance = |column: usize| {
        let place = &places[column];
        let overlap = place.x1.min(cell.x1) - place.x0.max(cell.x0);
        if overlap > 0.0 { -overlap / place.width().min(cell.width()).max(1.0) } else { -overlap }
    };
    let last = last.min(places.len() - 1);
    (first.min(last)..=last).min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(last)
}

/// Tables whose rows have different shades.
fn take_striped(
    fragments: &mut Vec<Fragment>,
    content: &PageContent,
    turn: &Turn,
    found: &mut Vec<Found>,
    broken: &mut Broken,
) {
    for rows in stripes::find(&content.fills, &content.page) {
        let area = rows.iter().fold(Area::empty(), |all, row| all.union(row));
        let is_known = found.iter().any(|table| table.area.intersect(&area).is_valid());
        if !is_known && area.width() >= MIN_TABLE_RULE_POINTS {
            let mut edges = stripes::edges(&rows);
            edges.extend(tail_below(fragments, &rows));
            take_stack(fragments, &edges, &content.page, turn, found, broken);
        }
    }
}

/// The lower edge of a last row without a fill: the lines right below, in several columns.
fn tail_below(fragments: &[Fragment], filled: &[Area]) -> Option<Area> {
    let last = filled.last()?;
    let highest = filled.iter().map(Area::height).fold(0.0, f32::max);
    let mut below: Vec<Fragment> = fragments
        .iter()
        .filter(|fragment| {
            let (x, y) = fragment.area.center();
            (last.x0..=last.x1).contains(&x) && (last.y1..last.y1 + 2.0 * highest).contains(&y)
        })
        .cloned()
        .collect();
    let margin = fragments
        .iter()
        .filter(|fragment| last.contains(fragment.area.center().0, fragment.area.center().1))
        .map(|fragment| fragment.area.y0 - last.y0)
        .fold(f32::INFINITY, f32::min);
    below.sort_by(|a, b| a.baseline.total_cmp(&b.baseline));
    let rows = row::rows(below);
    let first = rows.first().filter(|row| row.fragments.len() >= 2)?;
    // The text of each row has the same distance from the row's upper edge.
    if (first.area.y0 - last.y1 - margin).abs() > 0.35 * first.size {
        return None;
    }
    let is_next = |pair: &&[Row]| {
        pair[1].baseline - pair[0].baseline <= 1.5 * pair[1].size
            && pair[1].fragments.iter().all(|part| part.area.width() < 0.75 * last.width())
    };
    let lines = 1 + rows.windows(2).take_while(is_next).count();
    let bottom = rows[lines - 1].area.y1 + margin.max(0.0);
    Some(Area::new(last.x0, bottom, last.x1, bottom))
}

/// Tables between horizontal rules of the same length, as journals set them.
fn take_between_rules(
    fragments: &mut Vec<Fragment>,
    content: &PageContent,
    turn: &Turn,
    found: &mut Vec<Found>,
    broken: &mut Broken,
) {
    let mut rules: Vec<Area> = content
        .rules
        .iter()
        .filter(|rule| rule.width() >= MIN_TABLE_RULE_POINTS && rule.height() <= 4.0 && rule.y0.is_finite())
        .filter(|rule| {
            !found.iter().any(|table| table.area.grown(4.0).contains(rule.center().0, rule.center().1))
        })
        .copied()
        .collect();
    if rules.len() < 2 || rules.len() > 400 {
        return;
    }
    rules.sort_by(|a, b| a.y0.total_cmp(&b.y0));
    let mut used = vec![false; rules.len()];
    for first in 0..rules.len() {
        if used[first] {
            continue;
        }
        let mut stack = vec![rules[first]];
        for (index, rule) in rules.iter().enumerate().skip(first + 1) {
            let is_same = (rule.x0 - rules[first].x0).abs() < 4.0 && (rule.x1 - rules[first].x1).abs() < 4.0;
            if is_same && !used[index] {
                used[index] = true;
                stack.push(*rule);
            }
        }
        take_stack(fragments, &stack, &content.page, turn, found, broken);
    }
}

fn take_stack(
    fragments: &mut Vec<Fragment>,
    stack: &[Area],
    page: &Area,
    turn: &Turn,
    found: &mut Vec<Found>,
    broken: &mut Broken,
) {
    let mut from = 0;
    while from + 1 < stack.len() {
        let mut to = from;
        while to + 1 < stack.len() && is_tabular(fragments, &stack[to], &stack[to + 1], page) {
            to += 1;
        }
        if to > from {
            let area = stack[from].union(&stack[to]);
            let (inside, outside): (Vec<Fragment>, Vec<Fragment>) =
                fragments.drain(..).partition(|fragment| {
                    let (x, y) = fragment.area.center();
                    area.grown(2.0).contains(x, y)
                });
            *fragments = outside;
            let rows = row::rows(inside);
            let lines: Vec<f32> = stack[from..=to].iter().map(|line| line.center().1).collect();
            match aligned::table(&rows, &lines, Evidence::Rules) {
                Ok(cells) => {
                    let with_head = take_head(fragments, &area, &rows, &lines, cells.columns);
                    let (cells, head) = with_head.unwrap_or((cells, Area::empty()));
                    let area = area.union(&head);
                    let confidence = cells.confidence;
                    found.push(Found { area, table: cells.finish(turn), confidence });
                }
                Err(refused) => {
                    broken.tables += u32::from(refused.is_tabular);
                    fragments.extend(rows.into_iter().flat_map(|row| row.fragments));
                }
            }
            from = to;
        }
        from += 1;
    }
}

/// The table with the row right above its first rule, where that names the columns: some tables have a rule below each
/// row and none above the first.
fn take_head(
    fragments: &mut Vec<Fragment>,
    area: &Area,
    rows: &[Row],
    lines: &[f32],
    columns: usize,
) -> Option<(Cells, Area)> {
    let first = rows.first()?;
    let reach = (first.area.y1 - area.y0).clamp(1.2 * first.size, 2.5 * first.size);
    let is_above = |fragment: &Fragment| {
        let (x, y) = fragment.area.center();
        (area.y0 - reach..area.y0).contains(&y) && (area.x0 - 2.0..=area.x1 + 2.0).contains(&x)
    };
    let above: Vec<Fragment> = fragments.iter().filter(|fragment| is_above(fragment)).cloned().collect();
    let [head] = <[Row; 1]>::try_from(row::rows(above)).ok()?;
    let is_short = head.fragments.iter().all(|part| part.text.chars().count() <= 40);
    if head.fragments.len() < 2 || head.fragments.len() * 3 < columns * 2 || !is_short {
        return None;
    }
    let place = head.area;
    let with_head: Vec<Row> = std::iter::once(head).chain(rows.iter().cloned()).collect();
    let cells =
        aligned::table(&with_head, lines, Evidence::Rules).ok().filter(|cells| cells.columns == columns)?;
    fragments.retain(|fragment| !is_above(fragment));
    Some((cells, place))
}

/// Whether most rows between two rules have several parts.
fn is_tabular(fragments: &[Fragment], above: &Area, below: &Area, page: &Area) -> bool {
    let area = above.union(below);
    if area.height() > 0.75 * page.height() {
        return false;
    }
    if area.height() < 5.0 {
        return true; // a double rule
    }
    let inside: Vec<Fragment> = fragments
        .iter()
        .filter(|fragment| {
            let (x, y) = fragment.area.center();
            area.contains(x, y)
        })
        .cloned()
        .collect();
    let rows = row::rows(inside);
    let prose = rows
        .iter()
        .filter(|row| row.fragments.iter().any(|part| part.area.width() > 0.75 * area.width()))
        .count();
    let several = rows.iter().filter(|row| row.fragments.len() >= 2).count();
    let is_one_row = aligned::is_one_row(&rows);
    !rows.is_empty() && (several * 2 >= rows.len() || is_one_row) && prose * 3 <= rows.len()
}
