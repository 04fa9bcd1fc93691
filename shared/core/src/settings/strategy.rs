//! The strategy of a purchase whose saga has a failed step.

use serde::{Deserialize, Serialize};

/// What happens to a purchase when a step fails.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_strategy)]
pub enum Strategy {
    /// Every completed step is undone.
    #[default]
    Rollback,
    /// The account is restored; a payment that was taken is kept until an operator decides.
    Partial,
    /// The step is retried until it succeeds; only a step that is refused is rolled back.
    Forward,
    /// Everything stays as it is until an operator decides.
    Manual,
}

fn unknown_strategy(text: &str) -> String {
    format!("unknown strategy {text:?} (accepted: rollback, partial, forward, manual)")
}
