//! Who is asked to read a page: a provider and one of its models.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    OpenAi,
    Anthropic,
}

impl Provider {
    pub const ALL: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("{text:?} is not an engine: openai or anthropic"))
    }
}

/// Which of a provider's models a job is read with at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    #[default]
    Primary,
    Fast,
    Secondary,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Fast => "fast",
            Self::Secondary => "secondary",
        })
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "primary" => Ok(Self::Primary),
            "fast" => Ok(Self::Fast),
            "secondary" => Ok(Self::Secondary),
            _ => Err(format!("{text:?} is not a tier: primary, fast or secondary")),
        }
    }
}

/// The models of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    pub primary: String,
    pub secondary: String,
    pub fast: String,
}

impl Models {
    pub fn of_tier(&self, tier: Tier) -> &str {
        match tier {
            Tier::Primary => &self.primary,
            Tier::Fast => &self.fast,
            Tier::Secondary => &self.secondary,
        }
    }
}

/// One provider:model, the unit of failover, breakers and in-flight slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    pub provider: Provider,
    pub model: String,
}

impl Target {
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}
