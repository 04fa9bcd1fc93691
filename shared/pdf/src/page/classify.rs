//! Decides whether a page reads well from its text alone, and says why.
//!
//! The costly mistake is to call a page text when its meaning is in a picture; the cheap one is to
//! send a plain page to the AI. In doubt the answer is graphics.

use everypage_core::domain::document::Reason;

use super::{
    geometry::Area,
    grid::Grid,
    marks::{Drawn, Fill, Marks},
    text::TextLayer,
};

/// A picture up to this share of the page is a logo: on A4, 5 by 3.7 cm.
const LOGO_SHARE: f32 = 0.03;
/// Several logos together (sponsors, icons) may take up to this.
const LOGOS_SHARE: f32 = 0.06;
/// An image over this share of a page is the page. Scans rarely leave more of a margin.
const SCAN_SHARE: f32 = 0.8;
/// Where no text is visible, a smaller image is a scan too.
const BARE_SCAN_SHARE: f32 = 0.5;
/// A drawing smaller than this in one direction is a row of bullets or check marks.
const FIGURE_POINTS: f32 = 24.0;

pub(crate) fn reason(marks: &Marks, text: &TextLayer) -> Reason {
    let mut covered = Grid::new(marks.page);
    marks.images.iter().for_each(|image| covered.cover(image));
    let share = covered.share();
    let bare = !text.letters.any() || marks.hidden_text > marks.shown_text;
    if share >= SCAN_SHARE || (bare && share >= BARE_SCAN_SHARE) {
        return Reason::Scanned;
    }
    let page = marks.page.size();
    let has_image = share > LOGOS_SHARE || marks.images.iter().any(|image| image.size() > LOGO_SHARE * page);
    if !text.letters.any() {
        return match (has_image, marks.painted) {
            (true, _) => Reason::Image,
            (false, true) => Reason::NoTextLayer,
            (false, false) => Reason::Blank,
        };
    }
    if text.letters.is_garbage() {
        Reason::GarbageText
    } else if has_image {
        Reason::Image
    } else if has_drawing(marks, &text.lines) || has_bars(&marks.fills, &text.lines, page) {
        Reason::VectorFigure
    } else {
        Reason::Text
    }
}

/// Drawn paths that hang together and make up something larger than a logo.
fn has_drawing(marks: &Marks, lines: &[Area]) -> bool {
    let drawn: Vec<&Drawn> = marks.drawn.iter().filter(|drawn| !is_highlight(drawn, lines)).collect();
    let mut touched = Grid::new(marks.page);
    drawn.iter().for_each(|drawn| touched.touch(&drawn.area));
    let groups = touched.groups();
    let mut figures = vec![(Area::nothing(), 0_u32); groups.count];
    for drawn in drawn {
        if let Some(label) = groups.label(&drawn.area) {
            let (area, strokes) = &mut figures[label];
            *area = area.union(&drawn.area);
            *strokes = strokes.saturating_add(drawn.strokes);
        }
    }
    figures.iter().any(|(area, strokes)| {
        // One slanted line or arc strikes something out; three make a picture.
        *strokes >= 3 && area.shorter() >= FIGURE_POINTS && area.size() > LOGO_SHARE * marks.page.size()
    })
}

/// A marker's stroke under words: the words fill most of it, unlike a shape with a caption inside.
fn is_highlight(drawn: &Drawn, lines: &[Area]) -> bool {
    let words: f32 = lines
        .iter()
        .map(|line| line.intersect(&drawn.area))
        .filter(Area::is_valid)
        .map(|overlap| overlap.size())
        .sum();
    drawn.filled && words >= 0.4 * drawn.area.size()
}

/// A bar chart: at least three strong, empty rectangles that stand on one line and differ in length.
/// Cells of a table hold words, share their length or are pale.
fn has_bars(fills: &[Fill], lines: &[Area], page: f32) -> bool {
    let bars: Vec<&Area> = fills
        .iter()
        .filter(|fill| fill.strong && fill.area.shorter() > 3.0 && fill.area.longer() >= 8.0)
        .map(|fill| &fill.area)
        .filter(|bar| !lines.iter().any(|line| holds_center(bar, line)))
        .collect();
    let upright = |bar: &&Area| (bar.y1, bar.height());
    let lying = |bar: &&Area| (bar.x0, bar.width());
    has_series(&bars, upright, page) || has_series(&bars, lying, page)
}

fn holds_center(area: &Area, line: &Area) -> bool {
    let (x, y) = line.center();
    area.holds(x, y)
}

/// `measure` tells where a bar stands and how long it is.
fn has_series(bars: &[&Area], measure: impl Fn(&&Area) -> (f32, f32), page: f32) -> bool {
    let mut sorted: Vec<(f32, f32, Area)> = bars
        .iter()
        .map(|bar| {
            let (foot, length) = measure(bar);
            (foot, length, **bar)
        })
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted.chunk_by(|a, b| (a.0 - b.0).abs() <= 1.0).any(|series| {
        let lengths = || series.iter().map(|bar| bar.1);
        let spread = lengths().fold(0.0, f32::max) - lengths().fold(f32::INFINITY, f32::min);
        let area = series.iter().fold(Area::nothing(), |all, bar| all.union(&bar.2));
        series.len() >= 3 && spread > 4.0 && area.size() > LOGO_SHARE * page
    })
}
