//! A word and its place on a page.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Confidence, PageBox};

/// A word that OCR found on a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageWord {
    pub text: String,
    /// On the page as it lies in the file.
    #[serde(rename = "box")]
    pub area: PageBox,
    /// Words of one line have the same number.
    pub line: u32,
    pub confidence: Confidence,
    /// How often the page must be turned by 90 degrees clockwise to have the word upright.
    #[serde(default, skip_serializing_if = "is_upright")]
    #[schema(required = false)]
    pub turns: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_upright(turns: &u8) -> bool {
    *turns == 0
}
