//! Sends notices to people: through SNS on AWS; by a webhook, by e-mail and in the log on one machine.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ids::TenantId, ports::Fault};

/// The occasion of a notice.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NoticeKind {
    /// Work was given up and waits for a person to redrive or purge it.
    DeadLetter,
    /// A plan waits for approval.
    Approval,
    /// A provider or model can't be used with these settings, such as a bad API key.
    BadKey,
    /// A purchase of credits waits for an operator.
    Purchase,
    /// The erasure of a tenant waits for an operator.
    Erasure,
    /// A budget is used up.
    Budget,
    /// A balance is not the sum of its ledger.
    AccountDrift,
}

/// A way to reach people.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Channel {
    Log,
    /// The terminal of `serve`.
    Terminal,
    Webhook,
    Email,
    Sns,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Constant over all attempts to send it, so that receivers can deduplicate.
    pub id: String,
    pub tenant: TenantId,
    pub kind: NoticeKind,
    /// The tenant's `default_responsible`, where one is set.
    pub responsible: Option<String>,
    /// Of any length and content. At least its first [`MAX_SUBJECT_CHARS`] are sent; line breaks and
    /// control characters may be replaced with spaces.
    pub subject: String,
    /// What happened, why, and what to do; never document text. Sent in full, and never empty.
    pub body: String,
}

/// SNS accepts subjects of fewer than 100 characters.
pub const MAX_SUBJECT_CHARS: usize = 99;

#[async_trait]
pub trait Notifier: Send + Sync {
    fn channel(&self) -> Channel;

    /// Sends the notice once, with its own timeout of at most [`SEND_TIMEOUT`].
    async fn notify(&self, notice: &Notice) -> Result<(), Fault>;
}

/// The limit of one attempt to send a notice.
pub const SEND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
