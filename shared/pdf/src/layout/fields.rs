//! Fields of forms: a label, and what is written on the line next to it, are one text.

use super::{
    content::{Field, FieldKind, PageContent},
    fragment::{Fragment, Word},
    letters, row,
};
use crate::page::Area;

/// A shorter line is an underlined word.
const MIN_LINE_POINTS: f32 = 15.0;
/// A page with more lines is a drawing or a table.
const MAX_LINES: usize = 300;
/// A page with more text is no form.
const MAX_FRAGMENTS: usize = 3_000;

/// A label is at most this far from its field.
const MAX_LABEL_POINTS: f32 = 160.0;

/// Joins what text fields hold with their labels: the text left of them, else above, else the tooltip. A value that is
/// not painted is added.
pub(super) fn add(fragments: &mut Vec<Fragment>, content: &PageContent) {
    if fragments.len() > MAX_FRAGMENTS {
        return;
    }
    for field in &content.fields {
        let is_inside = |fragment: &Fragment| {
            let (x, y) = fragment.area.center();
            field.area.grown(1.0).contains(x, y)
        };
        match field.kind {
            FieldKind::Text => {}
            FieldKind::Secret => {
                fragments.retain(|fragment| !is_inside(fragment));
                continue;
            }
            FieldKind::Mark { .. } => continue,
        }
        let (inside, outside): (Vec<Fragment>, Vec<Fragment>) = fragments.drain(..).partition(is_inside);
        *fragments = outside;
        let rows = row::rows(inside);
        let value = match rows.as_slice() {
            [] if field.value.is_empty() => continue,
            [] => unpainted(field),
            rows => lines_as_one(rows),
        };
        match label_of(field, &value, fragments) {
            Some(label) => {
                let label = &mut fragments[label];
                label.text.truncate(label.text.trim_end().len());
                label.text.push_str(if label.text.ends_with([':', '：', '?']) { " " } else { ": " });
                label.append(&value);
            }
            None if field.label.is_empty() => fragments.push(value),
            None => fragments.push(with_tooltip(value, &field.label)),
        }
    }
}

/// The lines of a value as one text at the place of the first.
fn lines_as_one(rows: &[row::Row]) -> Fragment {
    let mut lines = rows.iter().map(row::Row::joined);
    let mut value = lines.next().unwrap_or_default();
    for line in lines {
        letters::join_line(&mut value.text, &line.text);
        value.area.x0 = value.area.x0.min(line.area.x0);
        value.area.x1 = value.area.x1.max(line.area.x1);
        value.glyphs += line.glyphs;
        // Where the words of the other lines are says nothing about this one.
        value.words.truncate(1);
    }
    value
}

/// The value of a field as a fragment in its place.
fn unpainted(field: &Field) -> Fragment {
    let Area { x0, y0, x1, y1 } = field.area;
    let size = (0.7 * (y1 - y0)).clamp(6.0, 12.0);
    Fragment {
        text: field.value.clone(),
        area: field.area,
        baseline: f32::midpoint(y0, y1) + 0.3 * size,
        size,
        glyphs: field.value.chars().count() as u32,
        words: vec![Word { start: 0, x0, x1 }],
        ..Fragment::default()
    }
}

fn with_tooltip(mut value: Fragment, label: &str) -> Fragment {
    let prefix = format!("{}: ", label.trim_end_matches(':'));
    for word in value.words.iter_mut().skip(1) {
        word.start += prefix.len();
    }
    value.text.insert_str(0, &prefix);
    value
}

fn label_of(field: &Field, value: &Fragment, fragments: &[Fragment]) -> Option<usize> {
    let nearest = |distance: &dyn Fn(&Fragment) -> Option<f32>| {
        let found = fragments.iter().enumerate().filter_map(|(index, other)| Some((index, distance(other)?)));
        found.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    };
    let left = |other: &Fragment| {
        let gap = field.area.x0 - other.area.x1;
        let is_in_row = (other.baseline - value.baseline).abs() < 0.6 * other.size.max(value.size);
        (is_in_row && (-3.0..=MAX_LABEL_POINTS).contains(&gap)).then_some(gap)
    };
    let above = |other: &Fragment| {
        let gap = field.area.y0 - other.area.y1;
        let is_over = (other.area.x0 - field.area.x0).abs() < 8.0 && other.area.x1 <= field.area.x1 + 8.0;
        (is_over && (-3.0..=other.size).contains(&gap)).then_some(gap)
    };
    nearest(&left).or_else(|| nearest(&above))
}

/// Joins labels, which end with a colon, with the text on a line that begins after them.
pub(super) fn join_filled(fragments: &mut Vec<Fragment>, rules: &[Area]) {
    let is_line = |rule: &&Area| rule.height() <= 2.0 && rule.width() >= MIN_LINE_POINTS;
    let lines: Vec<&Area> = rules.iter().filter(is_line).collect();
    if lines.is_empty() || lines.len() > MAX_LINES || fragments.len() > MAX_FRAGMENTS {
        return;
    }
    let is_label = |fragment: &Fragment| fragment.text.trim_end().ends_with([':', '：']);
    let mut label = 0;
    while label < fragments.len() {
        let value = Some(&fragments[label])
            .filter(|fragment| is_label(fragment) && !fragment.is_right_to_left)
            .and_then(|fragment| value_of(fragment, fragments, &lines));
        match value {
            Some(value) => {
                let text = fragments[value].clone();
                fragments[label].append(&text);
                fragments.remove(value);
                // What was before the label has moved it.
                label += usize::from(value > label);
            }
            None => label += 1,
        }
    }
}

/// The next text to the right of the label, if there is a line under it that is not under the label.
fn value_of(label: &Fragment, fragments: &[Fragment], lines: &[&Area]) -> Option<usize> {
    let next = fragments.iter().enumerate().filter(|(_, other)| {
        (other.baseline - label.baseline).abs() < 0.3 * label.size && other.area.x0 >= label.area.x1 - 1.0
    });
    let (index, value) = next.min_by(|a, b| a.1.area.x0.total_cmp(&b.1.area.x0))?;
    let has_line = lines.iter().any(|line| {
        let drop = line.center().1 - value.baseline;
        let is_under = (-0.1 * value.size..=0.6 * value.size).contains(&drop);
        let is_after_label = line.x0 >= label.area.x1 - 2.0;
        is_under && is_after_label && line.x0 <= value.area.x0 + 3.0 && line.x1 >= value.area.x1 - 3.0
    });
    has_line.then_some(index)
}
