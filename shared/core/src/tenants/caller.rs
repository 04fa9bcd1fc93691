//! The authenticated caller of a use case.

use serde::{Deserialize, Serialize};

use crate::ids::TenantId;

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_role)]
pub enum Role {
    /// Submits documents and reads results.
    User,
    /// Also decides on plans, redrives and purges dead letters, buys credits, and sees breakers and metrics.
    Operator,
}

fn unknown_role(text: &str) -> String {
    format!("unknown role {text:?} (accepted: user, operator)")
}

/// A user of one tenant, who has access to that tenant's data only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub tenant: TenantId,
    /// The name that audit trails record.
    pub user: String,
    pub role: Role,
}

impl Caller {
    /// Identifies the caller, in limits for example.
    pub fn identity(&self) -> String {
        format!("{}/{}", self.tenant, self.user)
    }
}
