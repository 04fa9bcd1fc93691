//! Telling a tenant's own server.

use async_trait::async_trait;

/// One message, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Why a message counts as not delivered, in words for people and without the address's secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// The address may not be called, or is none: trying again ends the same way.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

impl HookError {
    /// The same for the same kind of error, and without anything of the message or its receiver.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

#[async_trait]
pub trait Hooks: Send + Sync {
    /// What is wrong with an address, as far as it is seen without looking its name up.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Sends it once, within a time of its own. An answer of 2xx counts as delivered; redirects are
    /// never followed.
    async fn post(&self, call: &Call) -> Result<(), HookError>;
}
