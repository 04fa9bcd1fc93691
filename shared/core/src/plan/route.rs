//! Which pages go to AI, how, and what that will cost.

use crate::{
    document::{Classification, Reason},
    ids::PageNumber,
    money::MicroUsd,
    settings::AiPages,
};

/// What planning needs to know of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFacts {
    pub number: PageNumber,
    pub reason: Reason,
    pub has_image: bool,
    pub has_text: bool,
}

/// How a page goes to AI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// MuPDF's text stands.
    Keep,
    SendText,
    SendImage,
}

pub fn route(page: &PageFacts, ai_pages: AiPages, image_for_all: bool) -> Route {
    let needs_eyes = page.reason.classification() == Classification::HasGraphics;
    if page.has_image && (needs_eyes || image_for_all) {
        return Route::SendImage;
    }
    // Without an image there must at least be words to send.
    if page.has_text && ai_pages == AiPages::All {
        return Route::SendText;
    }
    Route::Keep
}

/// Rough size of a page for a model: an image's tokens, a page of text in, and one out.
pub const TOKENS_IN_IMAGE_PAGE: u64 = 2_000;
pub const TOKENS_IN_TEXT_PAGE: u64 = 1_200;
pub const TOKENS_OUT_PAGE: u64 = 800;

/// Prices are per million tokens, which makes tokens × USD come out in millionths of a dollar.
pub fn estimate_cost(image_pages: u32, text_pages: u32, usd_in: f64, usd_out: f64) -> MicroUsd {
    let tokens_in =
        u64::from(image_pages) * TOKENS_IN_IMAGE_PAGE + u64::from(text_pages) * TOKENS_IN_TEXT_PAGE;
    let tokens_out = u64::from(image_pages + text_pages) * TOKENS_OUT_PAGE;
    MicroUsd((tokens_in as f64 * usd_in + tokens_out as f64 * usd_out).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(reason: Reason, has_image: bool, has_text: bool) -> PageFacts {
        PageFacts { number: PageNumber::new(1).unwrap(), reason, has_image, has_text }
    }

    #[test]
    fn only_pages_that_need_eyes_are_sent_unless_asked_otherwise() {
        use AiPages::{All, Graphics};
        for (facts, ai, image_for_all, expected) in [
            (page(Reason::Text, false, true), Graphics, false, Route::Keep),
            (page(Reason::Text, false, true), All, false, Route::SendText),
            (page(Reason::Text, true, true), Graphics, true, Route::SendImage),
            (page(Reason::Scanned, true, false), Graphics, false, Route::SendImage),
            (page(Reason::Blank, false, false), All, false, Route::Keep),
            // The parser died on it: no image, no words, nothing to send.
            (page(Reason::Unreadable, false, false), All, true, Route::Keep),
            // Rendering failed but the words are there.
            (page(Reason::Image, false, true), All, false, Route::SendText),
        ] {
            assert_eq!(route(&facts, ai, image_for_all), expected, "{facts:?} {ai:?} {image_for_all}");
        }
    }
}
