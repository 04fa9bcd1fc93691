//! Figures drawn with vectors: clusters of lines, boxes and curves that are not part of text or tables.

use super::{
    geometry::Area,
    graphics::{Drawing, Graphics},
    grid::Grid,
};

/// A horizontal line of more than this part of the page's width separates parts of it.
const MIN_SEPARATOR_SHARE: f32 = 0.45;
/// A drawing smaller than this in one direction is a row of bullets or check marks.
const MIN_FIGURE_POINTS: f32 = 24.0;
/// A caption is at most this far from its figure.
const MAX_CAPTION_POINTS: f32 = 80.0;
/// A drawing up to this share of the page is a logo, unless a caption names it.
const MAX_LOGO_SHARE: f32 = 0.03;
/// With a caption, a smaller drawing is a figure.
const MIN_CAPTIONED_SHARE: f32 = 0.004;
/// So many slanted lines and curves are more than a logo has.
const MIN_COMPLEX_STROKES: u32 = 60;
const MIN_COMPLEX_SHARE: f32 = 0.012;

/// Marks that are close to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub area: Area,
    /// Slanted lines and curves.
    pub strokes: u32,
    /// The area of these alone.
    pub stroke_area: Area,
    /// Horizontal and vertical lines, and boxes.
    pub level: u32,
}

impl Cluster {
    /// Whether it is a figure without anything that names it.
    pub fn is_figure(&self, page: f32) -> bool {
        // One slanted line or arc strikes something out; three make a figure.
        let is_large = self.strokes >= 3 && self.area.size() > MAX_LOGO_SHARE * page;
        let is_complex = self.strokes >= MIN_COMPLEX_STROKES && self.area.size() > MIN_COMPLEX_SHARE * page;
        self.area.shorter() >= MIN_FIGURE_POINTS && (is_large || is_complex)
    }

    /// Whether one of the captions names it.
    pub fn is_named(&self, page: f32, captions: &[Area]) -> bool {
        let Area { x0, y0, x1, y1 } = self.area;
        let near = Area::new(x0 - 12.0, y0 - MAX_CAPTION_POINTS, x1 + 12.0, y1 + MAX_CAPTION_POINTS);
        self.area.size() > MIN_CAPTIONED_SHARE * page
            && self.area.shorter() >= 12.0
            && (self.strokes >= 1 || self.level >= 4)
            && captions.iter().any(|caption| near.intersect(caption).is_valid())
    }
}

/// Groups the marks of a page, without those in `tables` and those that decorate `lines` of text.
pub(crate) fn clusters(graphics: &Graphics, lines: &[Area], tables: &[Area]) -> Vec<Cluster> {
    let page = &graphics.page;
    let in_table = |area: &Area| {
        let (x, y) = area.center();
        tables.iter().any(|table| table.grown(3.0).contains(x, y))
    };
    let mut marks: Vec<(Area, u32, u32)> = Vec::new();
    for drawing in graphics.drawings.iter().filter(|drawing| !is_highlight(drawing, lines)) {
        marks.push((drawing.area, drawing.strokes, 0));
    }
    let text = Lines::new(lines);
    for rule in &graphics.rules {
        let is_wide =
            rule.width() > MIN_SEPARATOR_SHARE * page.width() && !has_siblings(rule, &graphics.rules);
        let is_separator = is_wide || rule.height() > 0.6 * page.height();
        if !is_separator && !text.is_underlined_by(rule) {
            marks.push((*rule, 0, 1));
        }
    }
    for fill in &graphics.fills {
        let has_text =
            lines.iter().take(2_000).any(|line| fill.area.contains(line.center().0, line.center().1));
        if !has_text && fill.area.size() < 0.5 * page.size() {
            marks.push((fill.area, 0, 1));
        }
    }
    marks.retain(|(area, ..)| area.is_valid() && !in_table(area));
    let mut touched = Grid::new(*page);
    marks.iter().for_each(|(area, ..)| touched.touch(area));
    let groups = touched.groups();
    let mut clusters =
        vec![Cluster { area: Area::empty(), stroke_area: Area::empty(), strokes: 0, level: 0 }; groups.count];
    for (area, strokes, level) in marks {
        if let Some(label) = groups.label(&area) {
            let cluster = &mut clusters[label];
            cluster.area = cluster.area.union(&area);
            if strokes > 0 {
                cluster.stroke_area = cluster.stroke_area.union(&area);
            }
            cluster.strokes = cluster.strokes.saturating_add(strokes);
            cluster.level = cluster.level.saturating_add(level);
        }
    }
    clusters
}

/// Whether there are more lines of the same length: the grid of a chart.
fn has_siblings(rule: &Area, rules: &[Area]) -> bool {
    let is_sibling = |other: &&Area| (other.x0 - rule.x0).abs() < 2.0 && (other.x1 - rule.x1).abs() < 2.0;
    rules.iter().take(1_000).filter(is_sibling).nth(3).is_some()
}

/// Whether one of the clusters is a figure.
pub(super) fn has_figure(clusters: &[Cluster], page: f32, captions: &[Area]) -> bool {
    clusters.iter().any(|cluster| cluster.is_figure(page) || cluster.is_named(page, captions))
}

/// Whether a drawing is a marker's stroke under words: they fill most of it, unlike a caption in a shape.
fn is_highlight(drawing: &Drawing, lines: &[Area]) -> bool {
    let words: f32 = lines
        .iter()
        .map(|line| line.intersect(&drawing.area))
        .filter(Area::is_valid)
        .map(|overlap| overlap.size())
        .sum();
    drawing.is_filled && words >= 0.4 * drawing.area.size()
}

/// Lines of text, by the place of their lower edge.
struct Lines {
    by_bottom: Vec<Area>,
}

impl Lines {
    fn new(lines: &[Area]) -> Self {
        let mut by_bottom: Vec<Area> = lines.iter().copied().filter(Area::is_valid).collect();
        by_bottom.sort_by(|a, b| a.y1.total_cmp(&b.y1));
        Self { by_bottom }
    }

    /// Whether the rule is under, over or through words.
    fn is_underlined_by(&self, rule: &Area) -> bool {
        if rule.height() > 3.0 {
            return false;
        }
        let y = rule.center().1;
        let first = self.by_bottom.partition_point(|line| line.y1 < y - 4.0);
        self.by_bottom[first..]
            .iter()
            .take_while(|line| line.y1 <= y + 30.0)
            .filter(|line| line.y0 <= y + 1.0)
            .any(|line| line.x1.min(rule.x1) - line.x0.max(rule.x0) >= 0.7 * rule.width())
    }
}
