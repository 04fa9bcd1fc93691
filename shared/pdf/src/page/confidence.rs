//! How sure the reading of a page is.

use everypage_core::document::{Confidence, Reason};

use super::content::TextContent;
use crate::layout::PageLayout;

/// What is lost with each table that only its alignment shows, and at most.
const UNCERTAIN_TABLE: f32 = 0.06;
const MAX_UNCERTAIN_TABLES: u32 = 4;

pub(crate) fn confidence(reason: Reason, text: &TextContent, layout: &PageLayout) -> Confidence {
    let base: f32 = match reason {
        Reason::Text => 0.97,
        Reason::Blank => 1.0,
        // The text is right, but it is not all there is.
        Reason::Image | Reason::VectorFigure => 0.6,
        Reason::Scanned => 0.3,
        Reason::GarbageText => 0.1,
        Reason::NoTextLayer | Reason::Unreadable => 0.0,
    };
    let tables = layout.uncertain_tables.min(MAX_UNCERTAIN_TABLES) as f32 * UNCERTAIN_TABLE;
    Confidence::new((base - tables - 2.0 * text.characters.broken_share()).max(0.0))
}
