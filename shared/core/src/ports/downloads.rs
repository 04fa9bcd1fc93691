//! Downloads that go past us, straight from the store of blobs.

use std::time::Duration;

use async_trait::async_trait;

use crate::ports::Fault;

/// Signed links on AWS; an engine without them carries whatever is asked for itself.
#[async_trait]
pub trait DownloadLinks: Send + Sync {
    /// An address where whoever knows it may read the blob under `key`, as `media_type`, for `time`.
    async fn link(&self, key: &str, media_type: &str, time: Duration) -> Result<String, Fault>;
}
