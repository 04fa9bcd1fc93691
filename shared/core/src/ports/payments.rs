//! Charges and refunds payments for credits.

use async_trait::async_trait;

use crate::{ids::TenantId, money::MicroUsd, secret::Secret};

/// One payment, identified by its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    pub key: String,
    pub tenant: TenantId,
    pub credits: u64,
    pub amount: MicroUsd,
    /// The payment service's token for the payer's card or account; without it, the service uses its
    /// default for the tenant.
    pub method: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub key: String,
    /// Key of the charge to refund.
    pub charge: String,
    pub tenant: TenantId,
    pub amount: MicroUsd,
}

/// Why a payment call failed. The text is shown to people and holds nothing of the payment method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaymentError {
    /// The service declined: nothing was charged, and a retry would be declined again.
    #[error("{0}")]
    Declined(String),
    /// The service was certainly not reached: nothing was charged, and a retry may succeed.
    #[error("{0}")]
    NotReached(String),
    /// No response, or none that shows whether the payment was made.
    #[error("{0}")]
    Unavailable(String),
}

#[async_trait]
pub trait Payments: Send + Sync {
    /// Charges the payer once per key, however often it is called; returns the service's id of the
    /// payment.
    async fn charge(&self, charge: &Charge) -> Result<String, PaymentError>;

    /// Refunds the charge with that key, once. If nothing was charged, nothing will be: a charge with
    /// that key that arrives later is declined.
    async fn refund(&self, refund: &Refund) -> Result<(), PaymentError>;
}
