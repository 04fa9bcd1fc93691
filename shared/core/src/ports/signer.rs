//! Signs requests to AWS services.

use async_trait::async_trait;

/// A POST that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    /// The name under which the service signs, such as `bedrock`.
    pub service: &'a str,
    pub region: &'a str,
    pub url: &'a str,
    pub body: &'a [u8],
}

/// Signs requests with the credentials of the process: a role, a profile, the environment.
#[async_trait]
pub trait RequestSigner: Send + Sync {
    /// The region that the process is configured for.
    fn region(&self) -> Option<&str>;

    /// Returns the headers to send with the request; an error when there are no credentials, in words for
    /// people and without any secret.
    async fn sign(&self, request: Signable<'_>) -> Result<Vec<(String, String)>, String>;
}
