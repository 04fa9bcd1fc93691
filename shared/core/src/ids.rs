//! Identifiers as types, so that one can't be passed in place of another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One accepted request: a document and what to do with it.
    JobId
);
id!(
    /// The owner of documents and credits.
    TenantId
);
id!(
    /// One event of an audit trail, unique across all trails.
    EventId
);
id!(
    /// Ties together everything that one request caused, across queues and functions.
    CorrelationId
);
id!(
    /// One dead letter.
    DeadLetterId
);
id!(
    /// One purchase of credits, and the saga that carries it out.
    PurchaseId
);
id!(
    /// One erasure of a tenant, and the saga that carries it out.
    ErasureId
);
id!(
    /// Names the step of a running flow that waits for a page.
    TaskToken
);

/// A page's true number in its document, counted from 1.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = u32, minimum = 1)]
pub struct PageNumber(u32);

impl PageNumber {
    /// `None` for 0: pages are counted from 1.
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Higher priorities are served first; lower ones never starve.
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
    strum::EnumString,
    strum::IntoStaticStr,
    utoipa::ToSchema,
)]
#[schema(as = EventPriority)]
#[serde(rename_all = "UPPERCASE")]
#[strum(ascii_case_insensitive, parse_err_ty = String, parse_err_fn = unknown_priority)]
pub enum Priority {
    #[strum(to_string = "low", serialize = "1")]
    Low = 1,
    #[default]
    #[strum(to_string = "normal", serialize = "2")]
    Normal = 2,
    #[strum(to_string = "high", serialize = "3")]
    High = 3,
    #[strum(to_string = "critical", serialize = "4")]
    Critical = 4,
    #[strum(to_string = "urgent", serialize = "5")]
    Urgent = 5,
}

impl Priority {
    pub const ALL: [Self; 5] = [Self::Low, Self::Normal, Self::High, Self::Critical, Self::Urgent];

    pub fn level(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

fn unknown_priority(text: &str) -> String {
    format!("unknown priority {text:?} (accepted: low, normal, high, critical, urgent, or 1 to 5)")
}
