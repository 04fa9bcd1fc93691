//! Encrypts secrets that are stored for as long as a job needs them.

use async_trait::async_trait;

use crate::{ports::Fault, secret::Secret};

/// The longest secret that every vault accepts. KMS encrypts 4096 bytes, one of which the adapter may
/// use itself.
pub const MAX_SECRET_BYTES: usize = 4095;

/// Encrypts secrets that must survive a crash but must not be stored as plain text: with KMS on AWS,
/// with a key file next to the data on one machine.
#[async_trait]
pub trait Vault: Send + Sync {
    /// Encrypts a secret of up to [`MAX_SECRET_BYTES`], possibly empty, so that only [`Vault::open`]
    /// of the same vault can read it, in any process.
    async fn seal(&self, secret: &Secret) -> Result<String, Fault>;

    /// Decrypts a sealed secret. Text that another vault sealed or that was changed is
    /// [`Fault::Broken`].
    async fn open(&self, sealed: &str) -> Result<Secret, Fault>;
}
