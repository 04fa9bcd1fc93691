//! Telling the responsible person: SNS on AWS, the log on one machine.

use async_trait::async_trait;

use super::Fault;
use crate::domain::ids::TenantId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub tenant: TenantId,
    /// The tenant's `default_responsible`, where one is set.
    pub responsible: Option<String>,
    pub subject: String,
    /// What happened, why, and what can be done; never document text.
    pub body: String,
}

#[async_trait]
pub trait Notifier: Send + Sync {
    async fn notify(&self, notice: &Notice) -> Result<(), Fault>;
}
