//! Decides whether a page is represented by its text alone, with the reason.
//!
//! The expensive error is to classify a page as text when its meaning is in a picture; the cheap one
//! is to send a plain page to the AI. In doubt a page has graphics.

use everypage_core::document::Reason;

use super::{
    content::TextContent,
    figures,
    geometry::Area,
    graphics::{Fill, Graphics},
    grid::Grid,
};
use crate::layout::PageLayout;

/// An image up to this share of the page is a logo: on A4, 5 by 3.7 cm.
const MAX_LOGO_SHARE: f32 = 0.03;
/// All logos together (sponsors, icons) may cover up to this share.
const MAX_LOGOS_SHARE: f32 = 0.06;
/// Images from this share of the page on make it a scan, which rarely has a wider margin.
const MIN_SCAN_SHARE: f32 = 0.8;
/// Without visible text a smaller image is a scan too.
const MIN_TEXTLESS_SCAN_SHARE: f32 = 0.5;

/// So many places of a page whose meaning is in what is above and below what.
const MIN_EQUATIONS: u32 = 2;

/// A table that was rebuilt with less confidence is rather read by an AI.
const MIN_TABLE_CONFIDENCE: f32 = 0.65;

/// `layout` is what was understood of the page: tables that were rebuilt are no figures, and captions name some.
pub(crate) fn reason(graphics: &Graphics, text: &TextContent, layout: &PageLayout) -> Reason {
    let mut covered = Grid::new(graphics.page);
    graphics.images.iter().for_each(|image| covered.cover(image));
    let share = covered.share();
    let is_textless = !text.characters.has_text() || graphics.hidden_text_runs > graphics.visible_text_runs;
    if share >= MIN_SCAN_SHARE || (is_textless && share >= MIN_TEXTLESS_SCAN_SHARE) {
        return Reason::Scanned;
    }
    let page = graphics.page.size();
    let is_large = |image: &Area| image.size() > MAX_LOGO_SHARE * page;
    let has_image = share > MAX_LOGOS_SHARE || graphics.images.iter().any(is_large);
    if !text.characters.has_text() {
        return match (has_image, graphics.is_painted) {
            (true, _) => Reason::Image,
            (false, true) => Reason::NoTextLayer,
            (false, false) => Reason::Blank,
        };
    }
    if text.characters.is_garbage() {
        Reason::GarbageText
    } else if has_image {
        Reason::Image
    } else {
        reason_of_rest(graphics, text, layout)
    }
}

/// The reason without the images, where they are the reason: on most pages they are a letterhead or a background.
pub(crate) fn reason_without_images(
    reason: Reason,
    graphics: &Graphics,
    text: &TextContent,
    layout: &PageLayout,
) -> Option<Reason> {
    let is_readable = text.characters.has_text() && !text.characters.is_garbage();
    let is_candidate = match reason {
        Reason::Image => true,
        // Text that is painted over a background, and not the layer of a scan: it is hidden, or under the picture.
        Reason::Scanned => {
            graphics.text_runs_over_images > 0
                && graphics.hidden_text_runs == 0
                && graphics.text_runs_over_images == graphics.visible_text_runs
        }
        _ => false,
    };
    (is_readable && is_candidate).then(|| reason_of_rest(graphics, text, layout))
}

/// The reason of a page with sound text, by all but its images.
fn reason_of_rest(graphics: &Graphics, text: &TextContent, layout: &PageLayout) -> Reason {
    let page = graphics.page.size();
    if figures::has_figure(
        &figures::clusters(graphics, &text.lines, &layout.tables),
        page,
        &layout.figure_captions,
    ) || has_bars(&graphics.fills, &text.lines, page)
    {
        Reason::VectorFigure
    } else if layout.equations >= MIN_EQUATIONS {
        Reason::Equation
    } else if layout.broken_tables > 0
        || layout.weakest_table.is_some_and(|table| table < MIN_TABLE_CONFIDENCE)
    {
        Reason::Table
    } else if layout.broken_forms > 0 {
        Reason::Form
    } else {
        Reason::Text
    }
}

/// Whether there is a bar chart: at least three dark, empty rectangles on one baseline that differ in
/// length. Cells of a table contain words, have the same length or are pale.
fn has_bars(fills: &[Fill], lines: &[Area], page: f32) -> bool {
    let bars: Vec<&Area> = fills
        .iter()
        .filter(|fill| fill.is_dark && fill.area.shorter() > 3.0 && fill.area.longer() >= 8.0)
        .map(|fill| &fill.area)
        .filter(|bar| !lines.iter().any(|line| contains_center(bar, line)))
        .collect();
    let vertical = |bar: &&Area| (bar.y1, bar.height());
    let horizontal = |bar: &&Area| (bar.x0, bar.width());
    has_series(&bars, vertical, page) || has_series(&bars, horizontal, page)
}

fn contains_center(area: &Area, line: &Area) -> bool {
    let (x, y) = line.center();
    area.contains(x, y)
}

/// `measure` returns a bar's baseline and length.
fn has_series(bars: &[&Area], measure: impl Fn(&&Area) -> (f32, f32), page: f32) -> bool {
    let mut sorted: Vec<(f32, f32, Area)> = bars
        .iter()
        .map(|bar| {
            let (baseline, length) = measure(bar);
            (baseline, length, **bar)
        })
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted.chunk_by(|a, b| (a.0 - b.0).abs() <= 1.0).any(|series| {
        let lengths = || series.iter().map(|bar| bar.1);
        let spread = lengths().fold(0.0, f32::max) - lengths().fold(f32::INFINITY, f32::min);
        let area = series.iter().fold(Area::empty(), |all, bar| all.union(&bar.2));
        series.len() >= 3 && spread > 4.0 && area.size() > MAX_LOGO_SHARE * page
    })
}
