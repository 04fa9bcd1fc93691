//! Notifies the responsible person: through SNS on AWS, in the log on one machine.

use async_trait::async_trait;

use crate::{ids::TenantId, ports::Fault};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub tenant: TenantId,
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
    async fn notify(&self, notice: &Notice) -> Result<(), Fault>;
}
