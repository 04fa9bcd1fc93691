//! Uploads that go past us, straight into the store of blobs.

use std::time::Duration;

use async_trait::async_trait;

use crate::ports::Fault;

/// What a caller does to upload an object: this method to this address, with these headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadLink {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(String, String)>,
}

/// Signed links on AWS; an engine without them takes documents in the request's body only.
#[async_trait]
pub trait UploadLinks: Send + Sync {
    /// A link that stores one object under `key` and does nothing else, good for `time`. An object
    /// that arrives is told to `usecases::upload::arrived`.
    async fn put(&self, key: &str, time: Duration) -> Result<UploadLink, Fault>;
}
