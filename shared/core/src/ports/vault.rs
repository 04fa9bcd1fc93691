//! Keeping a secret at rest for as long as a job needs it.

use async_trait::async_trait;

use crate::{ports::Fault, secret::Secret};

/// The longest secret that every vault takes. KMS encrypts 4096 bytes, one of which may be our own.
pub const MAX_SECRET_BYTES: usize = 4095;

/// Encrypts what must outlive a crash but must not be stored in clear: KMS on AWS, a key file
/// beside the data on one machine.
#[async_trait]
pub trait Vault: Send + Sync {
    /// Text that only [`Vault::open`] of the same vault can read, in any process. Any secret of up to
    /// [`MAX_SECRET_BYTES`], also the empty one.
    async fn seal(&self, secret: &Secret) -> Result<String, Fault>;

    /// What this vault did not seal, or what was changed since, is [`Fault::Broken`].
    async fn open(&self, sealed: &str) -> Result<Secret, Fault>;
}
