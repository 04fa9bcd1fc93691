//! Decides which pages go to AI, with which input, and estimates the cost.

use crate::{
    document::{Confidence, Reason},
    ids::PageNumber,
    money::MicroUsd,
    ports::vision::Price,
    settings::AiPages,
};

/// The facts about a page that decide its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFacts {
    pub number: PageNumber,
    pub reason: Reason,
    pub confidence: Confidence,
    pub has_image: bool,
    pub has_text: bool,
}

/// Whether a page goes to AI, and with which input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Not sent: the page's own text is used.
    Keep,
    SendText,
    SendImage,
}

pub fn route(page: &PageFacts, ai_pages: AiPages, image_for_all: bool) -> Route {
    if page.has_image && (image_for_all || ai_pages.needs_image(page.reason, page.confidence)) {
        return Route::SendImage;
    }
    // Without an image, a page needs text to be sent.
    if page.has_text && ai_pages == AiPages::All {
        return Route::SendText;
    }
    Route::Keep
}

/// Estimated tokens of a page: input with an image, input with text only, and output.
pub const TOKENS_IN_IMAGE_PAGE: u64 = 2_000;
pub const TOKENS_IN_TEXT_PAGE: u64 = 1_200;
pub const TOKENS_OUT_PAGE: u64 = 800;

/// The estimated cost of a plan.
pub fn estimate_cost(image_pages: u32, text_pages: u32, price: Price) -> MicroUsd {
    let pages = u64::from(image_pages + text_pages);
    let tokens_in =
        u64::from(image_pages) * TOKENS_IN_IMAGE_PAGE + u64::from(text_pages) * TOKENS_IN_TEXT_PAGE;
    MicroUsd::from_usd(price.cost_usd(tokens_in, pages * TOKENS_OUT_PAGE, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(reason: Reason, has_image: bool, has_text: bool) -> PageFacts {
        let confidence = Confidence::new(0.5);
        PageFacts { number: PageNumber::new(1).unwrap(), reason, confidence, has_image, has_text }
    }

    #[test]
    fn only_pages_with_graphics_are_sent_unless_the_options_include_more() {
        use AiPages::{All, Graphics, Unsure};
        for (facts, ai, image_for_all, expected) in [
            (page(Reason::Text, false, true), Graphics, false, Route::Keep),
            (page(Reason::Text, false, true), All, false, Route::SendText),
            (page(Reason::Text, true, true), Graphics, true, Route::SendImage),
            (page(Reason::Scanned, true, false), Graphics, false, Route::SendImage),
            (page(Reason::Blank, false, false), All, false, Route::Keep),
            // The parser crashed on it: there is neither image nor text to send.
            (page(Reason::Unreadable, false, false), All, true, Route::Keep),
            (page(Reason::Text, true, true), Unsure, false, Route::SendImage),
            (page(Reason::Text, false, true), Unsure, false, Route::Keep),
            // Rendering failed, but there is text.
            (page(Reason::Image, false, true), All, false, Route::SendText),
        ] {
            assert_eq!(route(&facts, ai, image_for_all), expected, "{facts:?} {ai:?} {image_for_all}");
        }
    }
}
