//! Taking money for credits, and giving it back.

use async_trait::async_trait;

use crate::{ids::TenantId, money::MicroUsd, secret::Secret};

/// One payment, named by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    pub key: String,
    pub tenant: TenantId,
    pub credits: u64,
    pub amount: MicroUsd,
    /// What the service knows the payer's card or account by; without it, its own default for the
    /// tenant.
    pub method: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub key: String,
    /// Key of the charge that is taken back.
    pub charge: String,
    pub tenant: TenantId,
    pub amount: MicroUsd,
}

/// In words for people, without anything of the payer's method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaymentError {
    /// The service said no: nothing was taken, and asking again ends the same way.
    #[error("{0}")]
    Declined(String),
    /// No answer, or none that says what happened.
    #[error("{0}")]
    Unavailable(String),
}

#[async_trait]
pub trait Payments: Send + Sync {
    /// Takes the money once per key, however often it is asked; answers with the service's own name for
    /// the payment.
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError>;

    /// Gives back what was taken under the charge's key, once. Where nothing was taken, nothing will be:
    /// a charge that is still on its way is declined from now on.
    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError>;
}
