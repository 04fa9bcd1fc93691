//! What a saga does when one of its steps fails.

use serde::{Deserialize, Serialize};

/// What becomes of a purchase when a step can't be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// All that was done is undone.
    #[default]
    Rollback,
    /// Our books are put back as they were; money that was taken stays where it is until a person
    /// decides.
    Partial,
    /// The step is tried until it is taken; only one that is refused is rolled back.
    Forward,
    /// Everything stays as it is until a person decides.
    Manual,
}

impl std::str::FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Rollback, Self::Partial, Self::Forward, Self::Manual]
            .into_iter()
            .find(|strategy| strategy.to_string() == text.to_ascii_lowercase())
            .ok_or_else(|| format!("{text:?} is not a strategy: rollback, partial, forward or manual"))
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Rollback => "rollback",
            Self::Partial => "partial",
            Self::Forward => "forward",
            Self::Manual => "manual",
        })
    }
}
