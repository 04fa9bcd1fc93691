//! Keeping a secret at rest for as long as a job needs it.

use async_trait::async_trait;

use super::Fault;
use crate::domain::secret::Secret;

/// Encrypts what must outlive a crash but must not be stored in clear: KMS on AWS, a key file
/// beside the data on one machine.
#[async_trait]
pub trait Vault: Send + Sync {
    /// Text that only [`Vault::open`] of the same vault can read.
    async fn seal(&self, secret: &Secret) -> Result<String, Fault>;

    async fn open(&self, sealed: &str) -> Result<Secret, Fault>;
}
