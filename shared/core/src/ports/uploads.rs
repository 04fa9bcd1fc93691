//! Links for uploads straight into blob storage.

use std::time::Duration;

use async_trait::async_trait;

use crate::ports::Fault;

/// How a caller uploads an object: a request with this method and these headers to this URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadLink {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(String, String)>,
}

/// Presigned URLs on AWS; a backend without links accepts documents in the request body only.
#[async_trait]
pub trait UploadLinks: Send + Sync {
    /// Returns a link that can only store one object under `key`, valid for `time`. The backend
    /// reports an object that arrives to `intake::accept::accept`.
    async fn put(&self, key: &str, time: Duration) -> Result<UploadLink, Fault>;
}
