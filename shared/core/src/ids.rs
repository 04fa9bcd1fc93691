//! Names of things, as types, so that one can't be passed for another.

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
    /// Whose documents and credits these are.
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
    /// Names the step of a running flow that waits for a page.
    TaskToken
);

/// A page's true number in its document, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
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

/// Higher goes first; lower never starves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Priority {
    Low = 1,
    #[default]
    Normal = 2,
    High = 3,
    Critical = 4,
    Urgent = 5,
}

impl Priority {
    pub const ALL: [Self; 5] = [Self::Low, Self::Normal, Self::High, Self::Critical, Self::Urgent];

    pub fn level(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Critical => "critical",
            Self::Urgent => "urgent",
        }
    }
}

impl std::str::FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "low" | "1" => Ok(Self::Low),
            "normal" | "2" => Ok(Self::Normal),
            "high" | "3" => Ok(Self::High),
            "critical" | "4" => Ok(Self::Critical),
            "urgent" | "5" => Ok(Self::Urgent),
            _ => Err(format!("{text:?} is not a priority: low, normal, high, critical or urgent (1 to 5)")),
        }
    }
}
