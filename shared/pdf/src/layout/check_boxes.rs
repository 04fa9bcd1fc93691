//! Check boxes: small squares that are drawn, with or without a mark in them. They become `☐` and `☒` in the text next
//! to them.

use super::{
    content::{FieldKind, PageContent},
    fragment::{Fragment, Word},
};
use crate::page::Area;

const MIN_SIDE_POINTS: f32 = 5.0;
const MAX_SIDE_POINTS: f32 = 18.0;
/// Sides of squares that are drawn as one differ by no more.
const TOLERANCE_POINTS: f32 = 1.2;
/// A page with more text is no form.
const MAX_FRAGMENTS: usize = 3_000;
/// A page with more short lines is a drawing.
const MAX_SIDES: usize = 600;
/// The label of a box is at most this far from it.
const MAX_LABEL_POINTS: f32 = 25.0;

const EMPTY: &str = "☐";
const MARKED: &str = "☒";

/// Whether a character in a box marks it.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '✓' | '✔'
            | '✗'
            | '✘'
            | '✕'
            | '✖'
            | '×'
            | 'x'
            | 'X'
            | '●'
            | '■'
            | '•'
            | '◆'
            | '★'
            | '√'
            | '☑'
            | '☒'
            | '☓'
    )
}

/// Adds the page's check boxes to the text.
pub(super) fn add(fragments: &mut Vec<Fragment>, content: &PageContent) {
    // What a field says of itself is certain; its square is usually drawn too.
    let fields: Vec<(Area, bool)> = content
        .fields
        .iter()
        .filter_map(|field| match field.kind {
            FieldKind::Mark { is_on } => Some((field.area, is_on)),
            FieldKind::Text | FieldKind::Secret => None,
        })
        .filter(|_| fragments.len() <= MAX_FRAGMENTS)
        .collect();
    let is_field = |square: &Area| {
        let (x, y) = square.center();
        fields.iter().any(|(area, _)| area.grown(2.0).contains(x, y))
    };
    for (area, is_on) in &fields {
        fragments.retain(|fragment| {
            let (x, y) = fragment.area.center();
            let is_in = area.contains(x, y) && fragment.area.longer() <= 1.4 * area.longer();
            !is_in || fragment.text.chars().count() > 1
        });
        fragments.iter_mut().for_each(|fragment| drop_painted_mark(fragment, area));
        place(fragments, area, if *is_on { MARKED } else { EMPTY });
    }
    for square in squares(&content.rules).into_iter().filter(|square| !is_field(square)) {
        let in_square = |area: &Area| {
            let (x, y) = area.center();
            square.grown(1.0).contains(x, y) && area.longer() <= 1.4 * square.longer()
        };
        // A square with a letter in it is a field for that letter.
        let is_letter =
            |fragment: &Fragment| in_square(&fragment.area) && !fragment.text.chars().all(is_mark);
        if fragments.iter().any(is_letter) {
            continue;
        }
        let count = fragments.len();
        fragments.retain(|fragment| !in_square(&fragment.area));
        let is_smaller = |area: &Area| area.longer() <= 0.9 * square.longer() && area.shorter() > 1.0;
        let is_marked = fragments.len() < count
            || content.marks.iter().any(in_square)
            || content.fills.iter().any(|fill| in_square(fill) && is_smaller(fill));
        place(fragments, &square, if is_marked { MARKED } else { EMPTY });
    }
}

/// Drops the sign in a field from the start of a longer text: the letter of a symbol font, in one run with the label.
fn drop_painted_mark(fragment: &mut Fragment, area: &Area) {
    let [first, second, ..] = fragment.words.as_slice() else { return };
    let y = fragment.area.center().1;
    let is_in = first.x0 >= area.x0 - 2.0
        && first.x1 <= area.x1 + 2.0
        && (area.y0 - 2.0..=area.y1 + 2.0).contains(&y)
        && fragment.text.get(first.start..second.start).is_some_and(|word| word.trim().chars().count() == 1);
    if !is_in {
        return;
    }
    let (end, left) = (second.start, second.x0);
    fragment.text.replace_range(..end, "");
    fragment.words.remove(0);
    for word in &mut fragment.words {
        word.start -= end;
    }
    fragment.area.x0 = left;
    fragment.glyphs = fragment.glyphs.saturating_sub(1);
}

/// Puts a mark before its label, or after it, or by itself into its row.
fn place(fragments: &mut Vec<Fragment>, square: &Area, mark: &str) {
    let y = square.center().1;
    let in_row = |fragment: &Fragment| fragment.area.y0 - 1.0 <= y && y <= fragment.area.y1 + 1.0;
    // The mark of a box is often in one run with its label.
    if let Some(fragment) =
        fragments.iter_mut().find(|fragment| in_row(fragment) && starts_in(fragment, square))
    {
        let end = fragment.words.get(1).map_or(fragment.text.len(), |word| word.start);
        let shift = MARKED.len() + 1;
        fragment.text.replace_range(..end, &format!("{MARKED} "));
        for word in fragment.words.iter_mut().skip(1) {
            word.start = word.start - end + shift;
        }
        return;
    }
    let right = |fragment: &Fragment| fragment.area.x0 - square.x1;
    let label = fragments
        .iter_mut()
        .filter(|fragment| in_row(fragment) && (-1.0..=MAX_LABEL_POINTS).contains(&right(fragment)))
        .min_by(|a, b| right(a).total_cmp(&right(b)));
    if let Some(label) = label {
        let prefix = format!("{mark} ");
        for word in &mut label.words {
            word.start += prefix.len();
        }
        label.words.insert(0, Word { start: 0, x0: square.x0, x1: square.x1 });
        label.text.insert_str(0, &prefix);
        label.area = label.area.union(square);
        return;
    }
    let Some(line) = fragments.iter().find(|fragment| in_row(fragment)) else { return };
    fragments.push(Fragment {
        text: mark.to_owned(),
        area: *square,
        baseline: line.baseline,
        size: line.size,
        glyphs: 1,
        words: vec![Word { start: 0, x0: square.x0, x1: square.x1 }],
        ..Fragment::default()
    });
}

/// Whether the first word of a longer fragment is a mark in the square.
fn starts_in(fragment: &Fragment, square: &Area) -> bool {
    let [first, second, ..] = fragment.words.as_slice() else { return false };
    let word = fragment.text.get(first.start..second.start).unwrap_or_default().trim();
    first.x0 >= square.x0 - 1.0
        && first.x1 <= square.x1 + 1.0
        && !word.is_empty()
        && word.chars().all(is_mark)
}

/// Squares of four short lines that touch no other square: cells of a grid do.
fn squares(rules: &[Area]) -> Vec<Area> {
    let is_side = |length: f32, thickness: f32| {
        (MIN_SIDE_POINTS..=MAX_SIDE_POINTS).contains(&length) && thickness <= 2.0
    };
    let level: Vec<&Area> = rules.iter().filter(|rule| is_side(rule.width(), rule.height())).collect();
    let upright: Vec<&Area> = rules.iter().filter(|rule| is_side(rule.height(), rule.width())).collect();
    if level.len() > MAX_SIDES || upright.len() > MAX_SIDES {
        return Vec::new();
    }
    let near = |a: f32, b: f32| (a - b).abs() <= TOLERANCE_POINTS;
    let mut found: Vec<Area> = Vec::new();
    for top in &level {
        let bottom = level.iter().find(|bottom| {
            let height = bottom.center().1 - top.center().1;
            near(top.x0, bottom.x0)
                && near(top.x1, bottom.x1)
                && height >= MIN_SIDE_POINTS
                && (height - top.width()).abs() <= 0.25 * top.width()
        });
        let Some(bottom) = bottom else { continue };
        let square = Area::new(top.x0, top.center().1, top.x1, bottom.center().1);
        let has_side = |x: f32| {
            upright
                .iter()
                .any(|side| near(side.center().0, x) && near(side.y0, square.y0) && near(side.y1, square.y1))
        };
        let is_known = found.iter().any(|other| near(other.x0, square.x0) && near(other.y0, square.y0));
        if has_side(square.x0) && has_side(square.x1) && !is_known {
            found.push(square);
        }
    }
    let touches = |a: &Area, b: &Area| {
        let is_next = (near(a.x1, b.x0) || near(b.x1, a.x0)) && a.y0 < b.y1 && b.y0 < a.y1;
        let is_above = (near(a.y1, b.y0) || near(b.y1, a.y0)) && a.x0 < b.x1 && b.x0 < a.x1;
        is_next || is_above
    };
    let all = found.clone();
    found.retain(|square| !all.iter().any(|other| other != square && touches(square, other)));
    found
}
