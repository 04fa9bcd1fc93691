use everypage_core::ids;
use serde::Serialize;
use utoipa::ToSchema;

/// The priority of a job; higher ones go first, lower ones never starve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    Normal,
    High,
    Critical,
    Urgent,
}

impl From<ids::Priority> for Priority {
    fn from(priority: ids::Priority) -> Self {
        match priority {
            ids::Priority::Low => Self::Low,
            ids::Priority::Normal => Self::Normal,
            ids::Priority::High => Self::High,
            ids::Priority::Critical => Self::Critical,
            ids::Priority::Urgent => Self::Urgent,
        }
    }
}
