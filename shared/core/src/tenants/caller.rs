//! Who asks for something, as the doors tell it to the use cases.

use serde::{Deserialize, Serialize};

use crate::ids::TenantId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends documents and reads results.
    User,
    /// Also decides on plans and looks after dead letters and breakers.
    Operator,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::User => "user",
            Self::Operator => "operator",
        })
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "user" => Ok(Self::User),
            "operator" => Ok(Self::Operator),
            _ => Err(format!("{text:?} is not a role: user or operator")),
        }
    }
}

/// Sees what belongs to its tenant and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub tenant: TenantId,
    /// Named in audit trails as the one who did it.
    pub user: String,
    pub role: Role,
}
