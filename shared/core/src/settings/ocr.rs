//! Which pages are recognized by OCR.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OcrPages {
    /// Pages without a sound text layer.
    #[default]
    Auto,
    Off,
    /// All pages; what is recognized replaces the text layer.
    Always,
}

impl OcrPages {
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}
