//! Telling the responsible person: SNS on AWS, the log on one machine.

use async_trait::async_trait;

use crate::{ids::TenantId, ports::Fault};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub tenant: TenantId,
    /// The tenant's `default_responsible`, where one is set.
    pub responsible: Option<String>,
    /// Of any length and content. Its first [`SUBJECT_CHARACTERS`] are told in any case; line breaks
    /// and control characters may become blanks.
    pub subject: String,
    /// What happened, why, and what can be done; never document text. Told whole, and never empty.
    pub body: String,
}

/// SNS takes fewer than 100.
pub const SUBJECT_CHARACTERS: usize = 99;

#[async_trait]
pub trait Notifier: Send + Sync {
    async fn notify(&self, notice: &Notice) -> Result<(), Fault>;
}
