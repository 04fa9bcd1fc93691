//! Fragments: runs of words on one baseline without a wide gap, with their spaces restored.

use std::collections::HashMap;

use super::{
    content::{Direction, Glyph, GlyphLine, PageContent},
    letters::{self, is_right_to_left},
    tags::{Tag, TagIndex},
};
use crate::page::Area;

/// A gap of this many ems is a space. Letters of one word are closer, words of TeX's tightest lines are not.
const MIN_SPACE_EMS: f32 = 0.09;
/// Where the line has spaces of its own, only a clear gap is another one.
const MIN_FURTHER_SPACE_EMS: f32 = 0.14;
/// A gap of this many ems always separates two fragments.
const MAX_WORD_GAP_EMS: f32 = 1.6;
/// A smaller gap separates them if it is over twice as wide as the others of the line.
const MIN_COLUMN_GAP_EMS: f32 = 0.9;
const WIDE_GAP_RATIO: f32 = 2.2;

#[derive(Clone, Debug, Default)]
pub(super) struct Fragment {
    pub text: String,
    pub area: Area,
    pub baseline: f32,
    pub size: f32,
    pub glyphs: u32,
    pub bold: u32,
    pub italic: u32,
    pub mono: u32,
    pub tag: Option<Tag>,
    pub is_right_to_left: bool,
    /// A row with wide gaps: not a line of a paragraph.
    pub is_spread: bool,
    pub words: Vec<Word>,
}

/// A word of a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// Where it starts in the fragment's text, in bytes.
    pub start: usize,
    pub x0: f32,
    pub x1: f32,
}

impl Fragment {
    pub fn is_bold(&self) -> bool {
        self.bold * 10 >= self.glyphs * 8
    }
    pub fn is_mono(&self) -> bool {
        self.mono * 10 >= self.glyphs * 8
    }

    /// Width of the first word, to see whether it would have fitted on the line before.
    pub fn first_word(&self) -> f32 {
        self.words.first().map_or(self.area.width(), |word| word.x1 - word.x0)
    }

    /// Splits the fragment before the first word that starts right of `x`.
    pub fn split_at(&self, x: f32) -> (Option<Self>, Option<Self>) {
        let index = self.words.iter().position(|word| (word.x0 + word.x1) / 2.0 >= x);
        match index {
            _ if self.is_right_to_left || self.words.is_empty() => {
                if self.area.center().0 < x {
                    (Some(self.clone()), None)
                } else {
                    (None, Some(self.clone()))
                }
            }
            Some(0) => (None, Some(self.clone())),
            None => (Some(self.clone()), None),
            Some(index) => {
                let start = self.words[index].start;
                let share = index as f32 / self.words.len() as f32;
                let part = |text: &str, words: &[Word], share: f32, offset: usize| {
                    let count =
                        |glyphs: u32| ((glyphs as f32 * share).round() as u32).max(u32::from(glyphs > 0));
                    let (x0, x1) = words.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(x0, x1), word| {
                        (x0.min(word.x0), x1.max(word.x1))
                    });
                    Self {
                        text: text.trim().to_owned(),
                        area: Area::new(x0, self.area.y0, x1, self.area.y1),
                        glyphs: count(self.glyphs),
                        bold: count(self.bold),
                        italic: count(self.italic),
                        mono: count(self.mono),
                        words: words
                            .iter()
                            .map(|word| Word { start: word.start - offset, ..*word })
                            .collect(),
                        ..self.clone()
                    }
                };
                let (left, right) = self.text.split_at_checked(start).unwrap_or((self.text.as_str(), ""));
                (
                    Some(part(left, &self.words[..index], share, 0)),
                    Some(part(right, &self.words[index..], 1.0 - share, start)),
                )
            }
        }
    }

    /// Appends a fragment of the same row, with a space between.
    pub fn append(&mut self, next: &Self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            let touches = next.area.x0 - self.area.x1 < MIN_SPACE_EMS * self.size.min(next.size);
            if !touches || self.is_right_to_left {
                self.text.push(' ');
            }
        }
        self.is_spread |= next.is_spread || next.area.x0 - self.area.x1 > 2.0 * next.size;
        let offset = self.text.len();
        self.text.push_str(&next.text);
        self.words.extend(next.words.iter().map(|word| Word { start: word.start + offset, ..*word }));
        self.area = self.area.union(&next.area);
        if next.glyphs > self.glyphs {
            (self.size, self.baseline) = (next.size, next.baseline);
        }
        self.glyphs += next.glyphs;
        self.bold += next.bold;
        self.italic += next.italic;
        self.mono += next.mono;
    }
}

/// The fragments of all horizontal lines, and those of lines in other directions.
pub(super) struct Fragments {
    pub level: Vec<Fragment>,
    pub sideways: Vec<Fragment>,
}

pub(super) fn fragments(content: &PageContent) -> Fragments {
    let mut seen = Overprints::default();
    let mut tags = TagIndex::new(&content.tags);
    let walls = Walls::new(&content.rules);
    let strikes = Strikes::new(&content.rules);
    let (mut level, mut sideways) = (Vec::new(), Vec::new());
    for line in &content.lines {
        let glyphs = clean(line, &mut seen);
        if line.direction == Direction::Right {
            read_line(&glyphs, &walls, &strikes, &mut tags, &mut level);
        } else {
            sideways.extend(whole(&glyphs));
        }
    }
    Fragments { level: merge(level, &walls), sideways }
}

/// Leaves out glyphs that are not text or are printed twice, and composes letters with their accents.
fn clean(line: &GlyphLine, seen: &mut Overprints) -> Vec<Glyph> {
    let mut glyphs: Vec<Glyph> = Vec::with_capacity(line.glyphs.len());
    for glyph in &line.glyphs {
        let Some(c) = letters::mapped(glyph.c) else { continue };
        let is_sound = [glyph.area.x0, glyph.area.y0, glyph.area.x1, glyph.area.y1, glyph.baseline]
            .iter()
            .all(|value| value.is_finite() && value.abs() < 1e6);
        if !is_sound || !glyph.size.is_finite() || glyph.size <= 0.0 {
            continue;
        }
        let mut glyph = Glyph { c, size: plausible_size(glyph), ..*glyph };
        if c == ' ' {
            glyphs.push(glyph);
            continue;
        }
        if seen.is_overprint(&glyph) {
            continue;
        }
        if let Some(last) = glyphs.last_mut() {
            let overlap = last.area.x1.min(glyph.area.x1) - last.area.x0.max(glyph.area.x0);
            let is_over = overlap > 0.4 * last.area.width().min(glyph.area.width()).max(0.1);
            if let (true, Some(accent)) = (is_over, letters::combining(last.c))
                && let Some(letter) = letters::composed(glyph.c, accent)
            {
                glyph.c = letter;
                *last = glyph;
                continue;
            }
            if let (true, Some(accent)) = (is_over, letters::combining(glyph.c))
                && let Some(letter) = letters::composed(last.c, accent)
            {
                last.c = letter;
                continue;
            }
        }
        glyphs.push(glyph);
    }
    glyphs
}

/// The font size, or one that fits the glyph's box where the two contradict each other.
fn plausible_size(glyph: &Glyph) -> f32 {
    let height = glyph.area.height();
    if height > 0.5 && (glyph.size < 0.4 * height || glyph.size > 4.0 * height) {
        return height / 1.2;
    }
    glyph.size.clamp(0.5, 2_000.0)
}

/// Glyphs by their place, to find those that are printed again to look bold or to cast a shadow.
#[derive(Default)]
struct Overprints {
    places: HashMap<(char, i32, i32), (f32, f32)>,
}

impl Overprints {
    fn is_overprint(&mut self, glyph: &Glyph) -> bool {
        let step = (0.25 * glyph.size).max(0.5);
        let (x, y) = (glyph.area.x0, glyph.baseline);
        let (column, row) = ((x / step).floor() as i32, (y / step).floor() as i32);
        let reach = 0.12 * glyph.size;
        // Only cells within reach can hold a twin; mostly that is one.
        let near = |value: f32, at: i32| {
            let from = (((value - reach) / step).floor() as i32).max(at.saturating_sub(1));
            let to = (((value + reach) / step).floor() as i32).min(at.saturating_add(1));
            from..=to
        };
        for near_column in near(x, column) {
            for near_row in near(y, row) {
                if let Some(&(other_x, other_y)) = self.places.get(&(glyph.c, near_column, near_row))
                    && (other_x - x).abs() <= reach
                    && (other_y - y).abs() <= reach
                {
                    return true;
                }
            }
        }
        self.places.insert((glyph.c, column, row), (x, y));
        false
    }
}

/// Vertical rules, by their place: words on both sides are in different cells.
pub(super) struct Walls {
    by_x: Vec<Area>,
}

impl Walls {
    fn new(rules: &[Area]) -> Self {
        let mut by_x: Vec<Area> =
            rules.iter().copied().filter(|rule| rule.height() > 6.0 && rule.width() <= 4.0).collect();
        by_x.sort_by(|a, b| a.x0.total_cmp(&b.x0));
        Self { by_x }
    }

    fn is_between(&self, left: f32, right: f32, y: f32) -> bool {
        let first = self.by_x.partition_point(|wall| wall.x1.max(wall.x0 + 4.0) < left - 1.0);
        self.by_x[first..].iter().take_while(|wall| wall.x0 <= right + 1.0).any(|wall| {
            wall.y0 <= y && y <= wall.y1 && wall.center().0 >= left - 1.0 && wall.center().0 <= right + 1.0
        })
    }
}

/// Horizontal rules that may strike out words, by their place.
struct Strikes {
    by_y: Vec<Area>,
}

impl Strikes {
    fn new(rules: &[Area]) -> Self {
        let mut by_y: Vec<Area> =
            rules.iter().copied().filter(|rule| rule.width() > 4.0 && rule.height() <= 2.0).collect();
        by_y.sort_by(|a, b| a.y0.total_cmp(&b.y0));
        Self { by_y }
    }

    /// The rules at the middle of a line's letters that begin and end with them.
    fn of<'a>(&'a self, line: &Area, baseline: f32, size: f32) -> Vec<&'a Area> {
        let (top, bottom) = (baseline - 0.45 * size, baseline - 0.15 * size);
        let first = self.by_y.partition_point(|rule| rule.y0 < top - 2.0);
        self.by_y[first..]
            .iter()
            .take_while(|rule| rule.y0 <= bottom)
            .filter(|rule| {
                let y = rule.center().1;
                (top..=bottom).contains(&y) && rule.x0 >= line.x0 - size && rule.x1 <= line.x1 + size
            })
            .collect()
    }
}

/// Reads glyphs of one line into fragments.
fn read_line(
    glyphs: &[Glyph],
    walls: &Walls,
    strikes: &Strikes,
    tags: &mut TagIndex<'_>,
    out: &mut Vec<Fragment>,
) {
    let letters = || glyphs.iter().filter(|glyph| glyph.c != ' ');
    let Some(main) = main_size(letters()) else { return };
    let is_right_to_left =
        letters().filter(|glyph| is_right_to_left(glyph.c)).count() * 2 > letters().count();
    let spacing = Spacing::of(glyphs, is_right_to_left);
    let line = letters().fold(Area::empty(), |all, glyph| all.union(&glyph.area));
    let struck = strikes.of(&line, main.baseline, main.size);
    let mut current = Builder::default();
    let mut before: Option<&Glyph> = None;
    let mut space = false;
    for glyph in glyphs {
        if glyph.c == ' ' {
            space |= before.is_some() && (!glyph.is_synthetic || is_right_to_left);
            continue;
        }
        let (x, y) = glyph.area.center();
        let tag = tags.at(x, y);
        if let Some(last) = before {
            let ems = glyph.size.max(last.size).max(0.1);
            let gap = gap(last, glyph, is_right_to_left) / ems;
            let is_cell = |tag: Option<Tag>| tag.is_some_and(|tag| tag.is_cell());
            let max_gap = if space { spacing.max_word_gap } else { spacing.max_gap_without_space };
            let splits = gap > max_gap
                || (!is_right_to_left && gap < -1.5)
                || (glyph.baseline - last.baseline).abs() > 0.6 * ems
                || (gap > 0.05 && walls.is_between(last.area.x1, glyph.area.x0, y))
                || (tag != current.tag && (is_cell(tag) || is_cell(current.tag)));
            if splits {
                out.extend(current.finish());
                space = false;
            } else if space || gap > spacing.min_space {
                current.space();
                space = false;
            }
        }
        if current.is_empty() {
            current.start(tag, is_right_to_left);
        }
        let is_struck = struck.iter().any(|rule| rule.x0 <= x && x <= rule.x1);
        let is_raised = glyph.size < 0.85 * main.size && main.baseline - glyph.baseline > 0.15 * main.size;
        current.push(glyph, is_raised, is_struck);
        before = Some(glyph);
    }
    out.extend(current.finish());
}

impl Tag {
    /// Whether the element is more than a paragraph, which may go astray.
    pub fn is_block(self) -> bool {
        !matches!(self.role, super::content::TagRole::Paragraph)
    }

    pub fn is_head_cell(self) -> bool {
        matches!(self.role, super::content::TagRole::Cell { is_head: true, .. })
    }

    pub fn is_cell(self) -> bool {
        matches!(self.role, super::content::TagRole::Cell { .. })
    }
}

fn gap(last: &Glyph, next: &Glyph, is_right_to_left: bool) -> f32 {
    if is_right_to_left { last.area.x0 - next.area.x1 } else { next.area.x0 - last.area.x1 }
}

/// How many glyphs have which size, with the baseline of the first of them.
#[derive(Default)]
struct Sizes {
    counts: Vec<(f32, f32, u32)>,
}

impl Sizes {
    /// A line with more sizes is no line of text.
    const MAX: usize = 16;

    fn count(&mut self, glyph: &Glyph) {
        match self.counts.iter().position(|(size, ..)| (size - glyph.size).abs() < 0.2) {
            Some(at) => self.counts[at].2 += 1,
            None if self.counts.len() < Self::MAX => self.counts.push((glyph.size, glyph.baseline, 1)),
            None => {}
        }
    }

    fn main(&self) -> Option<MainSize> {
        let most = self.counts.iter().max_by_key(|(.., count)| *count);
        most.map(|(size, baseline, _)| MainSize { size: *size, baseline: *baseline })
    }
}

/// The size and baseline of most glyphs.
struct MainSize {
    size: f32,
    baseline: f32,
}

fn main_size<'a>(glyphs: impl Iterator<Item = &'a Glyph>) -> Option<MainSize> {
    let mut sizes = Sizes::default();
    glyphs.for_each(|glyph| sizes.count(glyph));
    sizes.main()
}

/// The gaps of one line.
struct Spacing {
    min_space: f32,
    max_word_gap: f32,
    /// Where the line writes its spaces, a gap without one is between cells rather than between justified words.
    max_gap_without_space: f32,
}

impl Spacing {
    fn of(glyphs: &[Glyph], is_right_to_left: bool) -> Self {
        let mut within = Vec::with_capacity(glyphs.len());
        let mut between = Vec::new();
        let mut before: Option<&Glyph> = None;
        let mut space = false;
        for glyph in glyphs {
            if glyph.c == ' ' {
                space |= !glyph.is_synthetic;
                continue;
            }
            if let Some(last) = before {
                let ems = gap(last, glyph, is_right_to_left) / glyph.size.max(last.size).max(0.1);
                if space { between.push(ems) } else { within.push(ems) }
            }
            (before, space) = (Some(glyph), false);
        }
        let has_spaces = !between.is_empty();
        let tracking = if within.len() >= 6 { quantile(&mut within, 0.5).clamp(0.0, 1.0) } else { 0.0 };
        let least = if has_spaces { MIN_FURTHER_SPACE_EMS } else { MIN_SPACE_EMS };
        let min_space = if tracking > 0.03 { tracking * 1.6 + least } else { least };
        between.extend(within.iter().filter(|gap| **gap > min_space));
        between.retain(|gap| *gap < MAX_WORD_GAP_EMS);
        let typical = if between.len() >= 3 { quantile(&mut between, 0.5) } else { 0.33 };
        let max_word_gap = (typical * WIDE_GAP_RATIO).clamp(MIN_COLUMN_GAP_EMS, MAX_WORD_GAP_EMS) + tracking;
        let max_word_gap = if is_right_to_left { max_word_gap.max(2.5) } else { max_word_gap };
        let max_gap_without_space = if has_spaces && !is_right_to_left {
            max_word_gap.min(MIN_COLUMN_GAP_EMS + tracking)
        } else {
            max_word_gap
        };
        Self { min_space, max_word_gap, max_gap_without_space }
    }
}

fn quantile(values: &mut [f32], at: f32) -> f32 {
    values.sort_by(f32::total_cmp);
    let index = (values.len() as f32 * at) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// A fragment in the making.
#[derive(Default)]
struct Builder {
    fragment: Fragment,
    tag: Option<Tag>,
    sizes: Sizes,
    is_struck: bool,
    in_word: bool,
    /// The last letter, if it is raised, and where it is in the text.
    raised_letter: Option<(usize, char)>,
}

impl Builder {
    fn is_empty(&self) -> bool {
        self.fragment.glyphs == 0
    }

    fn start(&mut self, tag: Option<Tag>, is_right_to_left: bool) {
        self.tag = tag;
        self.in_word = false;
        self.fragment = Fragment { area: Area::empty(), tag, is_right_to_left, ..Fragment::default() };
    }

    fn space(&mut self) {
        if !self.is_empty() && !self.fragment.text.ends_with(' ') {
            self.fragment.text.push(' ');
            self.in_word = false;
        }
    }

    fn push(&mut self, glyph: &Glyph, is_raised: bool, is_struck: bool) {
        if is_struck != self.is_struck {
            self.toggle_strike();
        }
        let start = self.fragment.text.len();
        self.push_letter(glyph.c, is_raised);
        let fragment = &mut self.fragment;
        let style = glyph.style;
        fragment.glyphs += 1;
        fragment.bold += u32::from(style.bold);
        fragment.italic += u32::from(style.italic);
        fragment.mono += u32::from(style.mono);
        // The boxes of fonts differ in what they leave above and below: all lines get the same.
        let (top, bottom) = (glyph.baseline - 0.78 * glyph.size, glyph.baseline + 0.22 * glyph.size);
        fragment.area = fragment.area.union(&Area::new(glyph.area.x0, top, glyph.area.x1, bottom));
        match fragment.words.last_mut() {
            Some(word) if self.in_word => {
                (word.x0, word.x1) = (word.x0.min(glyph.area.x0), word.x1.max(glyph.area.x1));
            }
            _ => fragment.words.push(Word { start, x0: glyph.area.x0, x1: glyph.area.x1 }),
        }
        self.in_word = true;
        self.sizes.count(glyph);
    }

    /// Raised digits and single raised letters become superscripts; several letters are a word, as in `1st`.
    fn push_letter(&mut self, c: char, is_raised: bool) {
        let text = &mut self.fragment.text;
        let is_letter = is_raised && c.is_alphabetic();
        match self.raised_letter.filter(|_| is_letter && self.in_word) {
            Some((start, letter)) => {
                if text[start..].chars().eq([letters::superscript(letter)]) {
                    text.truncate(start);
                    text.push(letter);
                }
                self.raised_letter = Some((text.len(), c));
                text.push(c);
            }
            None => {
                self.raised_letter = is_letter.then_some((text.len(), c));
                text.push(if is_raised { letters::superscript(c) } else { c });
            }
        }
    }

    fn toggle_strike(&mut self) {
        let text = &mut self.fragment.text;
        if self.is_struck {
            let end = text.trim_end().len();
            let had_space = end < text.len();
            text.truncate(end);
            text.push_str(if had_space { "~~ " } else { "~~" });
        } else {
            text.push_str("~~");
        }
        self.is_struck = !self.is_struck;
    }

    fn finish(&mut self) -> Option<Fragment> {
        if self.is_struck {
            self.toggle_strike();
        }
        let sizes = std::mem::take(&mut self.sizes);
        let mut fragment = std::mem::take(&mut self.fragment);
        *self = Self::default();
        let main = sizes.main()?;
        (fragment.size, fragment.baseline) = (main.size, main.baseline);
        fragment.text.truncate(fragment.text.trim_end().len());
        if let std::borrow::Cow::Owned(text) = letters::normalized(&fragment.text) {
            // Composing shortens the text: the words' places in it are lost.
            fragment.words.truncate(1);
            fragment.text = text;
        }
        (!fragment.text.is_empty()).then_some(fragment)
    }
}

/// A sideways line as one fragment.
fn whole(glyphs: &[Glyph]) -> Option<Fragment> {
    let mut builder = Builder::default();
    for glyph in glyphs {
        if builder.is_empty() {
            builder.start(None, false);
        }
        if glyph.c == ' ' { builder.space() } else { builder.push(glyph, false, false) }
    }
    let area = glyphs.iter().fold(Area::empty(), |all, glyph| all.union(&glyph.area));
    builder.finish().map(|fragment| Fragment { area, ..fragment })
}

/// Joins fragments of one baseline that the file writes separately although no wide gap is between them.
fn merge(mut fragments: Vec<Fragment>, walls: &Walls) -> Vec<Fragment> {
    // A tenth of a point orders lines; within one, what differs in the noise of coordinates is sorted by x.
    let row = |fragment: &Fragment| (fragment.baseline * 2.0).round() as i64;
    fragments.sort_by(|a, b| row(a).cmp(&row(b)).then(a.area.x0.total_cmp(&b.area.x0)));
    let mut merged: Vec<Fragment> = Vec::with_capacity(fragments.len());
    for fragment in fragments {
        match merged.last_mut() {
            Some(last) if continues(last, &fragment, walls) => last.append(&fragment),
            _ => merged.push(fragment),
        }
    }
    merged
}

fn continues(last: &Fragment, next: &Fragment, walls: &Walls) -> bool {
    let ems = last.size.max(next.size);
    let gap = (next.area.x0 - last.area.x1) / ems;
    let is_same_size = last.size.min(next.size) >= 0.75 * ems;
    let is_same_cell =
        last.tag == next.tag || !(last.tag.is_some_and(Tag::is_cell) || next.tag.is_some_and(Tag::is_cell));
    let is_marker = last.text.chars().count() == 1 && last.text.chars().all(letters::is_bullet);
    !last.is_right_to_left
        && !next.is_right_to_left
        && (last.baseline - next.baseline).abs() <= 0.25 * ems
        && is_same_size
        && is_same_cell
        && !is_marker
        && (-0.3..=0.6).contains(&gap)
        && !walls.is_between(last.area.x1, next.area.x0, last.area.center().1)
}
