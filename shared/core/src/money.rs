//! Amounts of money.

use serde::{Deserialize, Serialize};

/// Money in millionths of a US dollar: sums of whole numbers are exact, sums of fractions are not.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = u64, description = "Millionths of a US dollar.")]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    pub fn from_usd(usd: f64) -> Self {
        // A negative or absurd price is a bug of a price table, not a reason to lose a page.
        Self((usd.max(0.0) * 1e6).round() as u64)
    }
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// In US dollars, as [`MicroUsd::from_str`](std::str::FromStr) reads it.
impl std::fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.usd())
    }
}

impl std::str::FromStr for MicroUsd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usd = text.trim().parse::<f64>().ok().filter(|usd| usd.is_finite() && (0.0..=1e9).contains(usd));
        usd.map(Self::from_usd).ok_or_else(|| format!("{text:?} is not an amount in US dollars such as 2.50"))
    }
}

impl std::ops::AddAssign for MicroUsd {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}
