//! Links for downloads straight from blob storage.

use std::time::Duration;

use async_trait::async_trait;

use crate::ports::Fault;

/// Presigned URLs on AWS; a backend without links serves the content itself.
#[async_trait]
pub trait DownloadLinks: Send + Sync {
    /// Returns a URL that lets anyone who knows it read the blob under `key`, served as `media_type`,
    /// for `time`.
    async fn link(&self, key: &str, media_type: &str, time: Duration) -> Result<String, Fault>;
}
