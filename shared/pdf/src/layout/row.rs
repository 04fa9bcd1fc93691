//! Rows: the fragments of one visual line, from left to right.

use super::fragment::Fragment;
use crate::page::Area;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub fragments: Vec<Fragment>,
    pub area: Area,
    /// Baseline and size of the fragment with most text.
    pub baseline: f32,
    pub size: f32,
}

impl Row {
    fn new(fragment: Fragment) -> Self {
        let (area, baseline, size) = (fragment.area, fragment.baseline, fragment.size);
        Self { fragments: vec![fragment], area, baseline, size }
    }

    fn add(&mut self, fragment: Fragment) {
        self.area = self.area.union(&fragment.area);
        self.fragments.push(fragment);
        if let Some(main) = self.fragments.iter().max_by_key(|fragment| fragment.glyphs) {
            (self.baseline, self.size) = (main.baseline, main.size);
        }
    }

    pub fn is_right_to_left(&self) -> bool {
        self.fragments.iter().filter(|fragment| fragment.is_right_to_left).count() * 2 > self.fragments.len()
    }

    /// All fragments as one, in reading order.
    pub fn joined(&self) -> Fragment {
        let mut ordered: Vec<&Fragment> = self.fragments.iter().collect();
        if self.is_right_to_left() {
            ordered.reverse();
        }
        let mut parts = ordered.into_iter();
        let mut line = parts.next().cloned().unwrap_or_default();
        for part in parts {
            line.append(part);
        }
        line
    }
}

/// Groups fragments into rows, from top to bottom.
pub(super) fn rows(mut fragments: Vec<Fragment>) -> Vec<Row> {
    fragments.sort_by(|a, b| a.baseline.total_cmp(&b.baseline));
    let mut rows: Vec<Row> = Vec::new();
    for fragment in fragments {
        // A raised or lowered fragment may come between two rows: it belongs to the one it overlaps most.
        let best = rows
            .iter_mut()
            .rev()
            .take(3)
            .map(|row| (overlap(row, &fragment), row))
            .filter(|(overlap, row)| *overlap >= 0.5 && has_room(row, &fragment))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match best {
            Some((_, row)) => row.add(fragment),
            None => rows.push(Row::new(fragment)),
        }
    }
    for row in &mut rows {
        row.fragments.sort_by(|a, b| a.area.x0.total_cmp(&b.area.x0));
    }
    rows.sort_by(|a, b| a.baseline.total_cmp(&b.baseline));
    rows
}

/// The shared height, as a part of the lower one's.
fn overlap(row: &Row, fragment: &Fragment) -> f32 {
    let (top, bottom) = (row.baseline - 0.78 * row.size, row.baseline + 0.22 * row.size);
    let shared = bottom.min(fragment.area.y1) - top.max(fragment.area.y0);
    shared / row.size.min(fragment.area.height()).max(0.1)
}

/// Whether nothing else of the row is where the fragment is: two lines that nearly touch are two rows.
fn has_room(row: &Row, fragment: &Fragment) -> bool {
    row.fragments.iter().all(|other| {
        let shared = other.area.x1.min(fragment.area.x1) - other.area.x0.max(fragment.area.x0);
        shared <= 0.3 * other.area.width().min(fragment.area.width()).max(1.0)
    })
}
