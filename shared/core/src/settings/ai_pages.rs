//! Which pages go to AI.

use serde::{Deserialize, Serialize};

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
    /// Pages with graphics; the others keep MuPDF's text.
    #[default]
    Graphics,
    /// All pages; those with a sound text layer are sent as text without an image.
    All,
}

fn unknown_choice(text: &str) -> String {
    format!("unknown choice of AI pages {text:?} (accepted: graphics, all)")
}
