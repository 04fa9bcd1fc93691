//! Paragraphs: which lines belong together, and how they are joined.

use super::{fragment::Fragment, letters, lists, tags::Tag};
use crate::page::Area;

/// A block in the making: lines that belong together.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub text: String,
    pub area: Area,
    pub size: f32,
    pub lines: u16,
    pub glyphs: u32,
    pub bold: u32,
    pub italic: u32,
    pub mono: u32,
    pub tag: Option<Tag>,
    pub is_list_item: bool,
    /// Baseline of the last line, and its distance from the one before; 0 for a single line.
    baseline: f32,
    leading: f32,
}

impl Draft {
    pub fn is_mono(&self) -> bool {
        self.mono * 10 >= self.glyphs * 8 && self.glyphs > 0
    }

    fn start(line: &Fragment) -> Self {
        Self {
            text: line.text.clone(),
            area: line.area,
            size: line.size,
            lines: 1,
            glyphs: line.glyphs,
            bold: line.bold,
            italic: line.italic,
            mono: line.mono,
            tag: line.tag,
            is_list_item: lists::marker(&line.text).is_some(),
            baseline: line.baseline,
            leading: 0.0,
        }
    }

    fn add(&mut self, line: &Fragment, is_hard_break: bool) {
        if is_hard_break {
            self.text.push('\n');
            self.text.push_str(&line.text);
        } else {
            letters::join_line(&mut self.text, &line.text);
        }
        self.area = self.area.union(&line.area);
        (self.leading, self.baseline) = (line.baseline - self.baseline, line.baseline);
        self.lines = self.lines.saturating_add(1);
        self.glyphs += line.glyphs;
        self.bold += line.bold;
        self.italic += line.italic;
        self.mono += line.mono;
    }
}

/// What the lines of a region have in common.
struct Region {
    left: f32,
    right: f32,
    leading: f32,
}

impl Region {
    fn of(lines: &[Fragment]) -> Self {
        let quantile = |mut values: Vec<f32>, at: f32| {
            values.sort_by(f32::total_cmp);
            let index = (values.len() as f32 * at) as usize;
            values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        let distances = lines
            .windows(2)
            .filter(|pair| (pair[0].size - pair[1].size).abs() < 0.5)
            .map(|pair| (pair[1].baseline - pair[0].baseline) / pair[0].size.max(1.0))
            .filter(|ems| (0.7..2.4).contains(ems))
            .collect::<Vec<f32>>();
        let leading = if distances.is_empty() { 1.2 } else { quantile(distances, 0.4).clamp(0.9, 2.0) };
        Self {
            left: quantile(lines.iter().map(|line| line.area.x0).collect(), 0.1),
            right: quantile(lines.iter().map(|line| line.area.x1).collect(), 0.95),
            leading,
        }
    }
}

/// Joins the lines of a region, from top to bottom, to paragraphs.
pub(super) fn paragraphs(lines: &[Fragment]) -> Vec<Draft> {
    let region = Region::of(lines);
    let mut drafts: Vec<Draft> = Vec::new();
    let mut code_left = 0.0;
    for (index, line) in lines.iter().enumerate() {
        let above = index.checked_sub(1).and_then(|above| lines.get(above));
        match (drafts.last_mut(), above) {
            (Some(draft), Some(above)) if draft.is_mono() && line.is_mono() && is_near(above, line, 2.6) => {
                let indent =
                    ((line.area.x0 - code_left) / (0.6 * line.size)).round().clamp(0.0, 80.0) as usize;
                let indented = Fragment { text: " ".repeat(indent) + &line.text, ..line.clone() };
                draft.add(&indented, true);
            }
            (Some(draft), Some(above)) if !breaks(draft, above, line, lines.get(index + 1), &region) => {
                let is_hard = is_hard_break(above, line, &region, draft);
                draft.add(line, is_hard);
            }
            _ => {
                drafts.push(Draft::start(line));
                code_left = line.area.x0;
            }
        }
    }
    drafts
}

fn is_near(above: &Fragment, line: &Fragment, ems: f32) -> bool {
    line.baseline - above.baseline <= ems * line.size
}

/// Whether a new block starts with `line`.
fn breaks(
    draft: &Draft,
    above: &Fragment,
    line: &Fragment,
    next: Option<&Fragment>,
    region: &Region,
) -> bool {
    let size = above.size.max(line.size);
    let distance = line.baseline - above.baseline;
    // Lines that are set closer than those that follow are another part, such as a running header.
    if draft.leading > 0.8 * size && distance > 1.45 * draft.leading {
        return true;
    }
    if let (Some(a), Some(b)) = (above.tag, line.tag) {
        if a.element != b.element {
            return true;
        }
        // One element may hold a whole page: then the tags say nothing about paragraphs.
        if draft.glyphs < 3_000
            && distance <= 1.25 * region.leading * size
            && (a.is_block() || above.size == line.size)
        {
            return false;
        }
    }
    if distance > ((region.leading * 1.28) * size).max((region.leading + 0.3) * size.min(above.size)) {
        return true;
    }
    if (above.size - line.size).abs() > 0.08 * size + 0.2 && !is_small_rest(line, above) {
        return true;
    }
    if above.is_mono() != line.is_mono() && line.glyphs > 3 && above.glyphs > 3 {
        return true;
    }
    let is_bold = draft.bold * 10 >= draft.glyphs * 8;
    if is_bold != line.is_bold() && line.glyphs >= 3 && (is_bold || would_have_fitted(above, line, region)) {
        return true;
    }
    if let Some(length) = lists::marker(&line.text) {
        let is_certain = lists::is_bulleted(&line.text) && !line.text.starts_with(['-', '–', '—', '*', '·']);
        let hangs = line.area.x0 < above.area.x0 - 0.5 * size;
        let is_series = draft.is_list_item && (line.area.x0 - draft.area.x0).abs() < 0.6 * size;
        if is_certain
            || hangs
            || is_series
            || would_have_fitted(above, line, region)
            || ends_sentence(&above.text)
        {
            return length > 0;
        }
    }
    // A short line alone above a full one is a heading.
    let width = (region.right - region.left).max(1.0);
    if draft.lines == 1
        && !draft.is_list_item
        && above.area.width() < 0.45 * width
        && line.area.width() > 0.6 * width
        && above.text.chars().next_back().is_some_and(char::is_alphanumeric)
        && starts_sentence(&above.text)
        && starts_sentence(&line.text)
        && would_have_fitted(above, line, region)
    {
        return true;
    }
    let is_indented = |line: &Fragment, base: f32| (0.7 * size..8.0 * size).contains(&(line.area.x0 - base));
    let base = draft.area.x0.min(region.left.max(draft.area.x0 - 3.0 * size));
    if draft.is_list_item {
        // The text after the marker hangs; a line at the marker's place is no part of the item.
        let is_outdented = line.area.x0 < draft.area.x0 - 0.5 * size;
        return is_outdented
            || (draft.lines == 1
                && line.area.x0 < draft.area.x0 + 0.2 * size
                && would_have_fitted(above, line, region));
    }
    let starts_with_indent = is_indented(line, base)
        && (above.area.x0 - base).abs() < 0.5 * size
        && next.is_none_or(|next| {
            (next.area.x0 - base).abs() < 0.5 * size || next.baseline - line.baseline > 1.8 * size
        });
    if starts_with_indent && !is_centered(above, line) {
        return true;
    }
    would_have_fitted(above, line, region)
        && ends_sentence(&above.text)
        && starts_sentence(&line.text)
        && !is_centered(above, line)
}

/// A line of a few small letters, such as the end of a sentence with a unit.
fn is_small_rest(line: &Fragment, above: &Fragment) -> bool {
    line.glyphs <= 3 && line.size < above.size
}

/// Whether the line's first word had room at the end of the line above, so that the break is on purpose.
fn would_have_fitted(above: &Fragment, line: &Fragment, region: &Region) -> bool {
    region.right - above.area.x1 > line.first_word() + 0.6 * line.size
}

/// Whether two lines are centered on each other.
fn is_centered(above: &Fragment, line: &Fragment) -> bool {
    (above.area.center().0 - line.area.center().0).abs() < 0.5 * line.size
        && (above.area.x0 - line.area.x0).abs() > 0.7 * line.size
}

fn is_hard_break(above: &Fragment, line: &Fragment, region: &Region, draft: &Draft) -> bool {
    if above.is_spread || line.is_spread {
        return true;
    }
    let is_heading = draft.bold * 10 >= draft.glyphs * 8;
    let room = region.right - above.area.x1;
    would_have_fitted(above, line, region)
        && room > 0.12 * (region.right - region.left)
        && !above.text.ends_with('-')
        && !is_centered(above, line)
        && !is_heading
        && line.tag.is_none()
        && !line.is_right_to_left
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end_matches(['"', '”', '’', ')', ']', '»']).ends_with(['.', '!', '?', ':', ';', '。'])
}

fn starts_sentence(text: &str) -> bool {
    text.trim_start_matches(['"', '“', '‘', '(', '[', '«', '¿', '¡']).starts_with(|c: char| {
        c.is_uppercase() || c.is_numeric() || letters::is_bullet(c) || letters::is_spaceless(c)
    })
}
