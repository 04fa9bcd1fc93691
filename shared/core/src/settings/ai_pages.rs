//! Which pages go to AI.

use serde::{Deserialize, Serialize};

use crate::document::{Classification, Confidence, Reason};

/// Our own reading of a page is unsure below this confidence, in hundredths.
const UNSURE_BELOW: f32 = 0.6;

/// Which pages are read by a vision model.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_choice)]
pub enum AiPages {
    /// Pages with graphics; the others keep their own text.
    #[default]
    Graphics,
    /// Pages whose own reading has a low confidence: scans, broken text, large pictures, tables and equations that
    /// could not be rebuilt. The others keep our text, figures or not.
    Unsure,
    /// All pages; those with a sound text layer are sent as text without an image.
    All,
}

impl AiPages {
    /// Whether a model should see the page. A page that the parser can't read can't be shown.
    pub fn needs_image(self, reason: Reason, confidence: Confidence) -> bool {
        match self {
            _ if matches!(reason, Reason::Unreadable | Reason::Blank) => false,
            Self::Unsure => confidence < Confidence::new(UNSURE_BELOW),
            Self::Graphics | Self::All => reason.classification() == Classification::HasGraphics,
        }
    }
}

fn unknown_choice(text: &str) -> String {
    format!("unknown choice of AI pages {text:?} (accepted: graphics, unsure, all)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsure_pages_are_those_with_a_low_confidence_whatever_is_on_them() {
        use AiPages::{All, Graphics, Unsure};
        for (choice, reason, confidence, expected) in [
            (Graphics, Reason::Text, 0.2, false),
            (Graphics, Reason::Image, 0.9, true),
            (All, Reason::Text, 0.2, false),
            (Unsure, Reason::Text, 0.97, false),
            (Unsure, Reason::Text, 0.4, true),
            (Unsure, Reason::Image, 0.75, false),
            (Unsure, Reason::Image, 0.59, true),
            (Unsure, Reason::Scanned, 0.3, true),
            (Unsure, Reason::NoTextLayer, 0.0, true),
            (Unsure, Reason::Unreadable, 0.0, false),
        ] {
            let needs = choice.needs_image(reason, Confidence::new(confidence));
            assert_eq!(needs, expected, "{choice} {reason:?} {confidence}");
        }
    }
}
