//! How sure the reading of a page is.

use everypage_core::document::{BlockKind, Confidence, Doubt, Reason};

use super::{content::TextContent, graphics::Graphics, grid::Grid};
use crate::layout::PageLayout;

/// The confidence of text next to a small picture, and what a picture that covers the page takes from it.
const WITH_PICTURE: f32 = 0.85;
const PICTURE: f32 = 0.6;
/// What is lost with each table whose columns are not drawn, and at most.
const UNCERTAIN_TABLE: f32 = 0.06;
const MAX_UNCERTAIN_TABLES: u32 = 4;
/// The confidence of a page whose weakest table is certainly wrong: its other text may be right.
const WRONG_TABLE: f32 = 0.2;
/// A smaller part of broken characters, such as one symbol, is not worth mentioning.
const MIN_BROKEN: f32 = 0.005;

pub(crate) fn confidence(
    reason: Reason,
    graphics: &Graphics,
    text: &TextContent,
    layout: &PageLayout,
) -> (Confidence, Vec<Doubt>) {
    let base: f32 = match reason {
        Reason::Text => 0.97,
        Reason::Blank => 1.0,
        // The text is right, but it is not all there is.
        Reason::Image | Reason::VectorFigure => WITH_PICTURE - PICTURE * picture_share(graphics, layout),
        Reason::Equation | Reason::Table | Reason::Form => 0.5,
        Reason::Scanned => 0.3,
        Reason::GarbageText => 0.1,
        Reason::NoTextLayer | Reason::Unreadable => 0.0,
    };
    let tables = layout.uncertain_tables.min(MAX_UNCERTAIN_TABLES) as f32 * UNCERTAIN_TABLE;
    let weakest = layout.weakest_table.map_or(1.0, |table| WRONG_TABLE + (1.0 - WRONG_TABLE) * table);
    let broken = text.characters.broken_share();
    let doubts = [
        (Doubt::Scan, reason == Reason::Scanned),
        (Doubt::Picture, matches!(reason, Reason::Image | Reason::VectorFigure)),
        (Doubt::Equation, reason == Reason::Equation),
        (Doubt::Table, reason == Reason::Table || layout.broken_tables > 0),
        (Doubt::Form, layout.broken_forms > 0),
        (Doubt::BorderlessTable, layout.uncertain_tables > 0),
        (Doubt::BrokenCharacters, broken > MIN_BROKEN),
    ];
    let doubts = doubts.into_iter().filter(|(_, applies)| *applies).map(|(doubt, _)| doubt).collect();
    (Confidence::new(((base - tables).min(weakest) - 2.0 * broken).max(0.0)), doubts)
}

/// The part of the page that images and figures cover.
fn picture_share(graphics: &Graphics, layout: &PageLayout) -> f32 {
    let mut images = Grid::new(graphics.page);
    graphics.images.iter().for_each(|image| images.cover(image));
    let figures = layout.blocks.iter().filter(|block| block.kind == BlockKind::Figure);
    let size =
        |block: &everypage_core::document::Block| block.area.width() as f32 * block.area.height() as f32;
    let drawn = figures.map(size).sum::<f32>() / graphics.page.size().max(1.0);
    images.share().max(drawn).min(1.0)
}
