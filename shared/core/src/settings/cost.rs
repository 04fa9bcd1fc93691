//! Speed or price.

use serde::{Deserialize, Serialize};

/// A job's preference where a provider sells the same call at two prices.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_cost)]
#[schema(description = "What the job prefers where a provider sells the same call at two prices.")]
pub enum Cost {
    #[default]
    Standard,
    /// The cheaper and slower tier, while the time left allows it.
    Low,
}

fn unknown_cost(text: &str) -> String {
    format!("unknown cost {text:?} (accepted: standard, low)")
}

impl Cost {
    pub fn is_standard(&self) -> bool {
        *self == Self::Standard
    }
}
