//! The tier of a call, as scripts and the log name it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::GrammarError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    #[default]
    Standard,
    /// Cheaper and slower.
    Flex,
}

impl Tier {
    /// The tier that a request names: providers differ in its case.
    pub(super) fn of(name: Option<&str>) -> Self {
        match name {
            Some(name) if name.eq_ignore_ascii_case("flex") => Self::Flex,
            _ => Self::Standard,
        }
    }

    /// Its name in a response: that of the standard tier is the provider's own.
    pub(super) fn name(self, standard: &'static str) -> &'static str {
        match self {
            Self::Standard => standard,
            Self::Flex => "flex",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name("standard"))
    }
}

impl FromStr for Tier {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        match text {
            "standard" => Ok(Self::Standard),
            "flex" => Ok(Self::Flex),
            _ => Err(GrammarError::new(text, "is not a tier: flex or standard")),
        }
    }
}
