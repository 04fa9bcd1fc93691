//! Which pages go to AI.

use serde::{Deserialize, Serialize};

/// Which pages an AI should read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AiPages {
    /// Those that need eyes; the others keep MuPDF's text.
    #[default]
    Graphics,
    /// Also those with sound text, sent as text without an image.
    All,
}

impl std::str::FromStr for AiPages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "graphics" => Ok(Self::Graphics),
            "all" => Ok(Self::All),
            _ => Err(format!("{text:?} is not a choice of pages: graphics or all")),
        }
    }
}
